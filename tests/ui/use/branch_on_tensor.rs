//! `if` needs a `bool`, and a tensor is an array, whose values are not known while `jit` traces. Write `x.greater(0.0).select(&a, &b)` to choose values, and `cond` to run one of two functions.

use pytree::prelude::*;

fn main() {
    let x = Tensor::from(1.0_f32);
    let _ = grad(|x: &Tensor| if x > 0.0 { x.square() } else { -x });
    let _ = jit(|x: Tensor| if x.greater(0.0) { x.square() } else { -x });
    let _ = if x.sum() > 0.0 { x } else { -x };
}
// gallery 9: An `if` on a tensor
