//! A closure as a static type argument.

use pytree::prelude::*;

#[derive(Module)]
struct Model<F> {
    #[param]
    weight: Tensor,
    #[r#static]
    activation: F,
}

fn use_module<M: Module>(_: &M) {}

fn main() {
    let weight = Tensor::from(1.0_f32);
    use_module(&Model { weight, activation: |x: &Tensor| x.tanh() });
}
