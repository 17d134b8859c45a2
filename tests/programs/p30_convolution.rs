//! A convolution with named axes: the length of the result is computed from the fields.

use pytree::convolution::{Convolution, Padding};
use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Conv1d {
    #[param("kernel in out")]
    weight: Tensor,
    #[param("out")]
    bias: Tensor,
    #[r#static]
    stride: usize,
    #[r#static]
    padding: usize,
}

impl Conv1d {
    fn new(inputs: usize, outputs: usize, kernel: usize, rngs: &mut Rngs) -> Self {
        Self {
            weight: rngs.normal(DType::F32, [kernel, inputs, outputs]),
            bias: Tensor::zeros(DType::F32, [outputs]),
            stride: 2,
            padding: 1,
        }
    }

    #[shapes(
        x = "batch length in",
        return = "batch (length+2*padding-kernel)/stride+1 out"
    )]
    fn forward(&self, x: &Tensor) -> Tensor {
        let padding = isize::try_from(self.padding).unwrap();
        let padding = Padding::Explicit(vec![(padding, padding)]);
        Convolution::new([self.stride], padding).apply(x, &self.weight) + &self.bias
    }

    /// A mistake: the padding is forgotten.
    #[shapes(
        x = "batch length in",
        return = "batch (length+2*padding-kernel)/stride+1 out"
    )]
    fn without_padding(&self, x: &Tensor) -> Tensor {
        Convolution::new([self.stride], Padding::Valid).apply(x, &self.weight) + &self.bias
    }
}

#[test]
fn length_of_the_result_is_computed() {
    let conv = Conv1d::new(4, 6, 3, &mut Rngs::new(0));
    for (length, expected) in [(10, 5), (9, 5), (1, 1)] {
        let x = Tensor::ones(DType::F32, [2, length, 4]);
        assert_eq!(conv.forward(&x).shape(), [2, expected, 6]);
    }
    let x = Tensor::ones(DType::F32, [2, 10, 4]);
    let gradient = grad(|conv: &Conv1d| conv.forward(&x).square().sum())(&conv);
    assert_eq!(gradient["weight"].shape(), [3, 4, 6]);
}

#[test]
fn forgotten_padding_is_a_mistake_of_the_method() {
    let conv = Conv1d::new(4, 6, 3, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [2, 10, 4]);
    assert_eq!(
        panic_message(|| conv.without_padding(&x)),
        "Conv1d::without_padding: the result is f32[2,4,6], expected [batch (length+2*padding-kernel)/stride+1 out] with \
         (length+2*padding-kernel)/stride+1 = 5 (length = 10 from x as [batch length in], padding = 1 from the static `padding`, \
         kernel = 3 from weight as [kernel in out], stride = 2 from the static `stride`); \
         this is a mistake in `without_padding` itself, at tests/programs/p30_convolution.rs:LINE, and not in its arguments"
    );
}

#[test]
fn channels_before_the_length_are_reported() {
    let conv = Conv1d::new(4, 6, 3, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [2, 4, 10]);
    assert_eq!(
        panic_message(|| conv.forward(&x)),
        "Conv1d::forward: x is f32[2,4,10], expected [batch length in] with in = 4 (from weight: f32[3,4,6] as [kernel in out]); \
         pass x with in = 4, or make the Conv1d with in = 10; axis 1 of x has length 4: did you transpose x?"
    );
}

#[test]
fn an_image_without_a_batch_is_reported() {
    let conv = Conv1d::new(4, 6, 3, &mut Rngs::new(0));
    assert_eq!(
        panic_message(|| conv.forward(&Tensor::ones(DType::F32, [10, 4]))),
        "Conv1d::forward: x is f32[10,4], expected [batch length in] with in = 4 (from weight: f32[3,4,6] as [kernel in out]); \
         reshape x to 3 axes"
    );
}
