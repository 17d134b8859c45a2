//! The fields of tuple structs have kinds too.

use pytree_core::Module;

#[derive(Module)]
struct Scale(f32);

fn main() {}
