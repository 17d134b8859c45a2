//! `grad` lends the model, but a forward pass with dropout writes it.

use pytree::prelude::*;

fn main() {
    let mut dropout = Dropout::new(0.5, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [4]);
    let _ = grad(|dropout: &mut Dropout| dropout.forward(&x).sum());
    let _ = value_and_grad(|dropout: &mut Dropout| dropout.forward(&x).sum())(&mut dropout);
    let _ = grad(|dropout: Dropout| dropout.clone().forward(&x).sum());
    let _ = value_and_grad_mut(|dropout: &Dropout| dropout.clone().forward(&x).sum());
}
// gallery 12: A function that writes its model under `grad`
