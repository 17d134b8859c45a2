//! Transformations take one argument: a tuple serves as a list of arguments.

use pytree::prelude::*;

fn main() {
    drop(jit(|x: Tensor, y: Tensor| x + y));
    drop(jit(named));
    drop(vmap(|x: Tensor, y: Tensor| x + y));
    drop(grad(|x: &Tensor, y: &Tensor| x * y));
    drop(jit_mut(|x: &mut Tensor, y: Tensor| *x = &*x + y));
    drop(vmap_mut(|x: &mut Tensor, y: Tensor| *x = &*x + y));
    drop(value_and_grad_mut(|x: &mut Tensor, y: Tensor| &*x * y));
}

fn named(x: Tensor, y: Tensor) -> Tensor {
    x + y
}
// gallery 10: A function of two arguments
