//! A reference says of what kind the field is that holds it.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    weight: Ref<Tensor>,
}

fn main() {}
