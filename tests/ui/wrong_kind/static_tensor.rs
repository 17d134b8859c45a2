//! A tensor is a leaf. In a static field, no transformation would see it.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[r#static]
    weight: Tensor,
}

fn main() {}
// gallery 8: A tensor in a static field
