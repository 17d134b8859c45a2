//! An attribute on a closure.

use pytree::prelude::*;
use pytree::shapes;

fn main() {
    #[shapes(x = "n")]
    let double = |x: &Tensor| x * 2.0;
    let _ = double;
}
