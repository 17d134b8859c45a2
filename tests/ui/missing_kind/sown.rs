//! What is sown is a state of some collection.

use pytree::prelude::*;

use pytree::nn::Sown;

#[derive(Module)]
struct Block {
    linear: Linear,
    y_mean: Sown,
}

fn main() {}
