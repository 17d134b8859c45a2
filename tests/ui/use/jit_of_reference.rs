//! `jit` lends the first arguments and passes the others by value; `vmap` passes all by value.

use pytree::prelude::*;

fn main() {
    drop(jit(|(x, model): (Tensor, &Mlp)| model.forward(&x)));
    drop(vmap(|x: &Tensor| x.sin()));
}
