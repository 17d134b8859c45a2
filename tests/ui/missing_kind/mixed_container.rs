//! A plain container of a module and a leaf has no kind in a module.

use pytree::prelude::*;


#[derive(Module)]
struct Inner {
    #[param]
    weight: Tensor,
}

#[derive(Pytree)]
struct Pair {
    inner: Inner,
    scale: Tensor,
}

#[derive(Module)]
struct Model {
    pair: Option<Pair>,
}

fn main() {}
