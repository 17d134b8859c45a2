//! A generic function that trains its argument needs the bound `Model`.

use pytree::prelude::*;


fn fit<M: Model>(_: &mut M) {}

fn train<M>(model: &mut M) {
    fit(model);
}

fn main() {
    train(&mut Tensor::from(2.0_f32));
}
