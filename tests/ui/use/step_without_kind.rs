//! A step counter is a number without a kind.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Net {
    linear: Linear,
    step: usize,
}

fn main() {}
