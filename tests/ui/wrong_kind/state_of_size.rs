//! A size is not a state.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[state]
    step: usize,
}

fn main() {}
