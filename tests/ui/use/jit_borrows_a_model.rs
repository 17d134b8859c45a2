//! A compiled function outlives the model that its closure borrows.

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
