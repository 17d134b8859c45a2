//! A forward pass with dropout writes the captured model, not the argument.

use pytree::prelude::*;

fn main() {
    let mut dropout = Dropout::new(0.5, &mut Rngs::new(0));
    let _ = grad(|x: &Tensor| dropout.forward(x).sum());
}
