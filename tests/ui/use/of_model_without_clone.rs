//! Training code for any `Model` needs a module that is `Clone`.

use pytree::prelude::*;


#[derive(Module)]
struct Scale {
    #[param]
    factor: Tensor,
}

fn fit<M: Model>(_: &mut M) {}

fn main() {
    fit(&mut Scale {
        factor: Tensor::from(2.0_f32),
    });
}
