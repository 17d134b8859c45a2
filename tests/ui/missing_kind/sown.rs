//! What is sown is a state of some collection.

use pytree::prelude::*;

#[derive(Module)]
struct Block {
    linear: Linear,
    y_mean: Sown,
}

fn main() {}
