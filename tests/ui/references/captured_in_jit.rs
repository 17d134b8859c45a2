//! A captured model can't be changed inside a compiled function: it would change when that is recorded only.

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
    let step = jit(|x: Tensor| {
        model.weight = &model.weight + &x;
        x
    });
    step(Tensor::from(1.0_f32));
}
