//! Training code for any `Model` needs a module whose leaves are tensors.

use pytree::prelude::*;


#[derive(Module, Clone)]
struct Scale {
    #[param]
    factor: f32,
}

fn fit<M: Model>(_: &mut M) {}

fn main() {
    fit(&mut Scale { factor: 2.0 });
}
