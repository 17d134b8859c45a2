//! Transformations take one argument: a tuple serves as a list of arguments.

use pytree::prelude::*;


fn main() {
    drop(jit(|x: Tensor, y: Tensor| x + y));
    drop(vmap(|x: Tensor, y: Tensor| x + y));
    drop(grad(|x: &Tensor, y: &Tensor| x * y));
    drop(jit_mut(|x: &mut Tensor, y: Tensor| *x = &*x + y));
}
