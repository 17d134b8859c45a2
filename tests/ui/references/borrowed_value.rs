//! A reference gives a value and lends none: it may be replaced at any time.

use pytree::prelude::*;

fn square(x: &Tensor) -> Tensor {
    x * x
}

fn main() {
    let weight = Ref::new(Tensor::from(2.0_f32));
    square(weight.get());
}
