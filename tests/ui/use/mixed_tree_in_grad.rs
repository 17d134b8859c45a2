//! A tree of any leaves, where tensors are needed.

use pytree::prelude::*;

fn main() {
    let _ = grad(|_: &Tree| Tensor::from(1.0_f32));
}
