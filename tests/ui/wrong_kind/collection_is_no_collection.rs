//! A collection is a type that derives `Collection`.

use pytree_core::Module;

struct Average;

#[derive(Module)]
struct Model {
    #[state(Average)]
    mean: f32,
}

fn main() {}
