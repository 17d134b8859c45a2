//! A tensor without attribute would silently not be trained.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    weight: Tensor,
}

fn main() {}
