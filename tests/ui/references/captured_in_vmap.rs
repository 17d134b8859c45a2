//! A captured model can't be changed for each example.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Model {
    #[param]
    weight: Tensor,
}

fn main() {
    let mut model = Model {
        weight: Tensor::from(2.0_f32),
    };
    let outputs = vmap(|x: Tensor| {
        model.weight = &model.weight + 1.0;
        x * &model.weight
    });
    outputs(Tensor::from([1.0_f32, 2.0]));
}
