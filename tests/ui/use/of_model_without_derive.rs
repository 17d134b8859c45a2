//! Training code for any `Model` needs a module.

use pytree::prelude::*;


#[derive(Clone)]
struct Scale {
    factor: Tensor,
}

fn fit<M: Model>(_: &mut M) {}

fn main() {
    fit(&mut Scale {
        factor: Tensor::from(2.0_f32),
    });
}
