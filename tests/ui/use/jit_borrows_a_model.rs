//! A compiled function may outlive the model that its closure borrows, and its program would keep the weights of the first call. Pass the model as the argument: `jit(|(model, x): (&Mlp, &Tensor)| …)`.

use pytree::prelude::*;

use pytree::transform::Jit;

fn compiled(model: &Mlp) -> Jit<Tensor, Tensor> {
    jit(|x: Tensor| model.forward(&x))
}

fn main() {
    let model = Mlp::new(&[2, 1], Activation::Relu, &mut Rngs::new(0));
    let forward = jit(|x: Tensor| model.forward(&x));
    drop((compiled(&model), forward));
}
// gallery 13: A compiled function that borrows a model
