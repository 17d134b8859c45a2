//! A tensor belongs among the leaves.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[r#static]
    weight: Tensor,
}

fn main() {}
