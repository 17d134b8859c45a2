//! A captured model can't be changed inside a transformed function: the change would not be differentiated.

use pytree::prelude::*;

fn main() {
    let mut counted = Tensor::from(0_i32);
    let slope = grad(|x: &Tensor| {
        counted = &counted + 1;
        x * 2.0
    });
    slope(&Tensor::from(1.0_f32));
}
