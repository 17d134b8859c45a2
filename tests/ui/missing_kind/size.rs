//! A size is not a leaf. It is part of the model's structure.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    features: usize,
}

fn main() {}
// gallery 2: A size without a kind
