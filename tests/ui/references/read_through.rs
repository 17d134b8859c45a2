//! A reference is not its value: it has no operators.

use pytree::prelude::*;

fn main() {
    let weight = Ref::new(Tensor::from(2.0_f32));
    let double = &weight * 2.0;
    println!("{double:?}");
}
