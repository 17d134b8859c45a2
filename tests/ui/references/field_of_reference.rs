//! A reference gives its value out and takes one in; its fields are not assigned.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Model {
    #[param]
    weight: Tensor,
}

fn main() {
    let model = Ref::new(Model {
        weight: Tensor::from(2.0_f32),
    });
    model.weight = Tensor::from(3.0_f32);
}
