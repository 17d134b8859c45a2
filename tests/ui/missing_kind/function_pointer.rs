//! A function pointer without an attribute: a function of references has a type of its own.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    activation: fn(&Tensor) -> Tensor,
    initializers: Vec<fn(&[usize]) -> Tensor>,
    of_values: fn(Tensor) -> Tensor,
}

fn main() {}
