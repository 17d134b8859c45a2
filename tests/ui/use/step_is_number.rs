//! A step counter is a number, which `jit` cannot trace.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Net {
    linear: Linear,
    #[state]
    step: i32,
}

#[derive(Module, Clone, Debug)]
struct Trainer {
    net: Net,
}

fn main() {
    let step = jit(|trainer: Trainer| trainer);
    drop(step);
}
