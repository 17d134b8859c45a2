//! A parameter of a number is not a tensor: the message shows the field.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[param]
    weight: f32,
}

fn main() {
    let _ = grad(|model: &Model| Tensor::from(model.weight));
}
