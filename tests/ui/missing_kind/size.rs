//! A size is no leaf.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    features: usize,
}

fn main() {}
