//! A generic function that differentiates its argument needs the bound `Model`.

use pytree::prelude::*;

fn norm<M>(model: &M) {
    let _ = grad(|_: &M| Tensor::from(1.0_f32))(model);
}

fn main() {
    norm(&Tensor::from(2.0_f32));
}
