//! A list of numbers is no list of indices, because it could mean one element or several rows.

use pytree::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let _ = x.index([0, 1]);
}
