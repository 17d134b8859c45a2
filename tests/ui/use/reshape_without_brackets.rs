//! A shape is one argument.

use pytree::prelude::*;

fn main() {
    let x = Tensor::ones(DType::F32, [4, 2]);
    drop(x.reshape(8));
    drop(x.reshape("2,4"));
}
