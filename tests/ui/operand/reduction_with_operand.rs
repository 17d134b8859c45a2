//! `max` reduces a tensor. The elementwise function is `maximum`.

use pytree::prelude::*;

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let _ = x.max(0);
}
