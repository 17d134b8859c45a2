//! `jit_mut` takes functions that write their arguments, which come first.

use pytree::prelude::*;


fn main() {
    drop(jit_mut(|(x, y): (Tensor, Tensor)| x + y));
    drop(jit_mut(|(x, y): (Tensor, &mut Tensor)| *y = &*y + x));
    drop(jit_mut(|(x, y): (&mut Tensor, &Tensor)| *x = &*x + y));
}
