//! Arguments are separated.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(static recursive)]
    size: usize,
}

fn main() {}
