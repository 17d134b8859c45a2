//! What a compiled function takes by value comes back from it, or is a clone.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Model {
    #[param]
    weight: Tensor,
}

fn main() {
    let model = Model {
        weight: Tensor::from(2.0_f32),
    };
    let forward = jit(|(model, x): (Model, Tensor)| x * &model.weight);
    forward((model, Tensor::from(1.0_f32)));
    println!("{model:?}");
}
