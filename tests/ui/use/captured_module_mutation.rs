//! A captured module can't be changed inside a transformed function: the change would not be differentiated.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Scale {
    #[param]
    factor: Tensor,
}

fn main() {
    let mut scale = Scale {
        factor: Tensor::from(2.0_f32),
    };
    let slope = grad(|x: &Tensor| {
        scale.factor = &scale.factor * 2.0;
        x * &scale.factor
    });
    slope(&Tensor::from(1.0_f32));
}
