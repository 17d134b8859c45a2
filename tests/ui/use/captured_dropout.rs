//! A forward pass with dropout writes the model. Here it would write the captured model, and the transformation would not see it. Pass the model as the argument: `value_and_grad_mut(|dropout: &mut Dropout| …)`.

use pytree::prelude::*;

fn main() {
    let mut dropout = Dropout::new(0.5, &mut Rngs::new(0));
    let _ = grad(|x: &Tensor| dropout.forward(x).sum());
}
// gallery 11: A closure that writes what it captures
