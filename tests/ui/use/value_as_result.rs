//! A transformed function returns tensors: their values are not known while it is traced.

use pytree::prelude::*;

fn main() {
    let x = Tensor::ones(DType::F32, [4, 2]);
    let _ = grad(|x: &Tensor| x.mean().item::<f32>())(&x);
    let _ = jit(|x: Tensor| x.mean().item::<f32>());
    let _ = vmap(|x: Tensor| x.shape()[0]);
}
