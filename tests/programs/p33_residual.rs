//! A residual block around any layer: the block checks a layer of unknown type.

use pytree::prelude::*;

use crate::programs::panic_message;

trait Layer: Module {
    fn forward(&self, x: &Tensor) -> Tensor;
}

#[derive(Module, Clone, Debug)]
struct Residual<M> {
    inner: M,
    #[param("features?")]
    scale: Tensor,
}

impl<M: Layer> Residual<M> {
    fn new(inner: M) -> Self {
        let scale = Tensor::ones(DType::F32, [1]);
        Self { inner, scale }
    }

    /// Without this check, a branch of width 1 would be broadcast silently.
    #[shapes(x = "*batch features", return = "*batch features")]
    fn branch(&self, x: &Tensor) -> Tensor {
        self.inner.forward(x)
    }
}

impl<M: Layer> Layer for Residual<M> {
    #[shapes(x = "*batch features", return = "*batch features")]
    fn forward(&self, x: &Tensor) -> Tensor {
        x + &self.scale * self.branch(x)
    }
}

#[derive(Module, Clone, Debug)]
struct Dense {
    #[param("in out")]
    weight: Tensor,
}

impl Layer for Dense {
    #[shapes(x = "... in", return = "... out")]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.weight).tanh()
    }
}

fn dense(inputs: usize, outputs: usize) -> Dense {
    let weight = Key::new(1).normal(DType::F32, [inputs, outputs]);
    Dense { weight }
}

#[test]
fn residual_blocks_nest() {
    let block = Residual::new(Residual::new(dense(4, 4)));
    block.check_shapes().unwrap();
    let x = Tensor::ones(DType::F32, [2, 3, 4]);
    assert_eq!(block.forward(&x).shape(), [2, 3, 4]);
    let gradient = grad(|block: &Residual<_>| block.forward(&x).sum())(&block);
    assert_eq!(gradient["inner.inner.weight"].shape(), [4, 4]);
}

#[test]
fn inner_layer_of_another_width_is_reported() {
    let block = Residual::new(dense(4, 1));
    let x = Tensor::ones(DType::F32, [2, 4]);
    assert_eq!(
        panic_message(|| block.forward(&x)),
        "Residual<Dense>::branch: the result is f32[2,1], expected [*batch features] with features = 4 (from x as [*batch features]); \
         this is a mistake in `branch` itself, at tests/programs/p33_residual.rs:LINE, and not in its arguments"
    );
}

#[test]
fn scale_of_another_width_is_reported() {
    let block = Residual {
        scale: Tensor::ones(DType::F32, [3]),
        ..Residual::new(dense(4, 4))
    };
    assert_eq!(
        panic_message(|| block.forward(&Tensor::ones(DType::F32, [2, 4]))),
        "Residual<Dense>::forward: x is f32[2,4], expected [*batch features] with features = 3 (from scale: f32[3] as [features?]); \
         pass x with features = 3, or make the Residual<Dense> with features = 4"
    );
}
