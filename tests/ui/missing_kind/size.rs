//! A size is not a leaf.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    features: usize,
}

fn main() {}
