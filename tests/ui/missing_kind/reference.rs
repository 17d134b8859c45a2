//! A reference needs a kind as what it holds does.

use pytree::Ref;
use pytree::prelude::*;

#[derive(Module)]
struct Counter {
    linear: Linear,
    calls: Ref<Tensor>,
}

fn main() {}
