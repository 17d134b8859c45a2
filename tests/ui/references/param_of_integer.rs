//! An integer has no gradient, in a reference neither.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[param]
    steps: Ref<i32>,
}

fn main() {}
