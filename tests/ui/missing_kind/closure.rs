//! A boxed closure without an attribute.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    activation: Box<dyn Fn(&Tensor) -> Tensor + Send + Sync>,
}

fn main() {}
