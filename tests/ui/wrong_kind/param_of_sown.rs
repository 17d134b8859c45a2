//! What is sown is of the collection of its field, and is never trained.

use pytree::prelude::*;

use pytree::nn::Sown;

#[derive(Module)]
struct Block {
    linear: Linear,
    #[param]
    y_mean: Sown,
}

fn main() {}
