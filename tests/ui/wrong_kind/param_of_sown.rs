//! Sown values belong to the collection of their field, and are never trained.

use pytree::prelude::*;

use pytree::nn::Sown;

#[derive(Module)]
struct Block {
    linear: Linear,
    #[param]
    y_mean: Sown,
}

fn main() {}
