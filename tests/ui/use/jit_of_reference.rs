//! `jit` and `vmap` take their argument by value.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Net {
    linear: Linear,
}

fn main() {
    drop(jit(|net: &Net| net.linear.bias.clone()));
    drop(vmap(|x: &Tensor| x.sin()));
}
