//! A tensor is indexed by a method.

use pytree::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let _ = &x[0];
}
