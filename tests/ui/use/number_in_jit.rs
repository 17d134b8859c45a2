//! A state of a number is not a tensor: the message shows the field.

use pytree::prelude::*;

#[derive(Module)]
struct Inner {
    #[param]
    weight: Tensor,
    #[state]
    step: i32,
}

#[derive(Module)]
struct Model {
    inner: Vec<Inner>,
}

fn main() {
    let _ = jit(|model: Model| model.inner[0].weight.clone());
}
