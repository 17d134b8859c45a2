//! A text is not an operand.

use pytree::prelude::*;

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let _ = &x * "2";
}
