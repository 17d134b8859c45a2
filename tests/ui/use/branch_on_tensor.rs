//! Rust's `if` needs a `bool`. The guide lists what to write for a tensor.

use pytree::prelude::*;

fn main() {
    let x = Tensor::from(1.0_f32);
    let _ = grad(|x: &Tensor| if x > 0.0 { x.square() } else { -x });
    let _ = jit(|x: Tensor| if x.greater(0.0) { x.square() } else { -x });
    let _ = if x.sum() > 0.0 { x } else { -x };
}
