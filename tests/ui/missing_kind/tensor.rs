//! A tensor without attribute would silently not be trained.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    weight: Tensor,
}

fn main() {}
// gallery 1: A tensor without a kind
