//! `jit` takes its argument by value.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[param]
    weight: Tensor,
}

fn main() {
    let _ = jit(|model: &Model| model.weight.clone());
}
