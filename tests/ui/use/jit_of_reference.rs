//! Of more than four arguments, `jit` lends the first ones and passes the others by value; `vmap` passes all by value.

use pytree::prelude::*;

fn main() {
    drop(jit(|(a, b, c, d, model): (Tensor, Tensor, Tensor, Tensor, &Mlp)| model.forward(&(a + b + c + d))));
    drop(vmap(|x: &Tensor| x.sin()));
}
