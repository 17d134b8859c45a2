//! An axis may be negative, so it is not a `usize`.

use pytree::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let _ = x.squeeze(x.rank() - 2);
}
