//! Tensors in a container are tensors.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[r#static]
    weights: Vec<Tensor>,
}

fn main() {}
