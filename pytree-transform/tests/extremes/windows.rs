//! Strides, dilations and paddings of windows that exceed the axis.

use pytree_transform::convolution::{Convolution, Padding};
use pytree_transform::pooling::Pooling;
use pytree_transform::{Tensor, grad};

use crate::extremes::harness::{Panic, Shape, check, elements, rows};

const HUGE: usize = usize::MAX;
const TOP: usize = 1 << 63;

/// Returns one example of 1 2 3, with one feature.
fn line() -> Tensor {
    Tensor::from([1.0_f32, 2.0, 3.0]).reshape([1, 3, 1])
}

/// Returns one example of a 2 × 3 picture of 1 to 6, with one feature.
fn picture() -> Tensor {
    Tensor::from([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape([1, 2, 3, 1])
}

fn kernel(elements: &[f32]) -> Tensor {
    Tensor::from(elements).reshape([elements.len(), 1, 1])
}

#[test]
fn strides_beyond_the_end_leave_one_window() {
    let valid = |stride: usize| Convolution::new([stride], Padding::Valid);
    let same = |stride: usize| Convolution::new([stride], Padding::Same);
    let square = || Tensor::from([[[[1.0_f32]]]]);
    let plane = |strides: [usize; 2]| Convolution::new(strides, Padding::Valid);
    check(&rows! {
        valid(HUGE).apply(&line(), &kernel(&[1.0, 10.0])) => elements([21.0]);
        valid(TOP).apply(&line(), &kernel(&[1.0, 10.0])) => elements([21.0]);
        same(HUGE).apply(&line(), &kernel(&[1.0, 10.0])) => elements([21.0]);
        same(TOP).apply(&line(), &kernel(&[1.0])) => elements([1.0]);
        valid(0).apply(&line(), &kernel(&[1.0])) => Panic("cannot convolve f32[1,3,1] and f32[1,1,1]: the strides are [0]");
        plane([HUGE, 1]).apply(&picture(), &square()) => elements([1.0, 2.0, 3.0]);
        plane([TOP, TOP]).apply(&picture(), &square()) => elements([1.0]);
        plane([1 << 62, 2]).apply(&picture(), &square()) => elements([1.0, 3.0]);
        Pooling::new([2]).strides([HUGE]).sum(&line()) => elements([3.0]);
        Pooling::new([2]).strides([TOP]).max(&line()) => elements([2.0]);
        Pooling::new([2]).strides([1 << 62]).min(&line()) => elements([1.0]);
        Pooling::new([2]).strides([HUGE]).padding(Padding::Same).average(&line()) => elements([1.5]);
        Pooling::new([1, 1]).strides([HUGE, TOP]).max(&picture()) => elements([1.0]);
        Pooling::new([0]).sum(&line()) => Panic("cannot sum windows of f32[1,3,1]: the window [0] has a size of 0");
        Pooling::new([1]).strides([0]).sum(&line()) => Panic("cannot sum windows of f32[1,3,1]: the strides are [0]");
        grad(move |x: &Tensor| valid(HUGE).apply(x, &kernel(&[1.0, 10.0])).sum())(&line()) => elements([1.0, 10.0, 0.0]);
        grad(|x: &Tensor| Pooling::new([2]).strides([TOP]).sum(x).sum())(&line()) => elements([1.0, 1.0, 0.0]);
    });
}

#[test]
fn dilations_beyond_the_end_leave_no_window() {
    let dilated =
        |dilation: usize| Convolution::new([1], Padding::Valid).kernel_dilation([dilation]);
    check(&rows! {
        dilated(HUGE).apply(&line(), &kernel(&[1.0, 10.0])) => Shape(vec![1, 0, 1]);
        dilated(TOP).apply(&line(), &kernel(&[1.0, 10.0, 100.0])) => Shape(vec![1, 0, 1]);
        dilated(1 << 62).apply(&line(), &kernel(&[1.0, 10.0, 100.0, 1.0, 1.0])) => Shape(vec![1, 0, 1]);
        dilated(HUGE).apply(&line(), &kernel(&[2.0])) => elements([2.0, 4.0, 6.0]);
        dilated(2).apply(&line(), &kernel(&[1.0, 10.0])) => elements([31.0]);
        dilated(0).apply(&line(), &kernel(&[1.0])) => Panic("the kernel dilation is [0]");
        Convolution::new([1], Padding::Valid).input_dilation([0]).apply(&line(), &kernel(&[1.0])) => Panic("the input dilation is [0]");
        Convolution::new([1], Padding::Valid).input_dilation([HUGE]).apply(&Tensor::from([[[5.0_f32]]]), &kernel(&[2.0])) => elements([10.0]);
        Convolution::new([HUGE], Padding::Valid).apply_transposed(&Tensor::from([[[5.0_f32]]]), &kernel(&[2.0])) => Panic("convolve transposed");
        Convolution::new([1], Padding::Explicit(vec![(-2, isize::MAX)])).apply(&line(), &kernel(&[1.0])) => Panic("convolve");
        Convolution::new([1], Padding::Explicit(vec![(-isize::MAX, 0)])).apply(&line(), &kernel(&[1.0])) => Panic("cannot convolve");
        Convolution::new([1], Padding::Explicit(vec![])).apply(&line(), &kernel(&[1.0])) => Panic("the padding [] has 0 pairs, but there are 1 spatial axes");
        Convolution::new([1], Padding::Valid).feature_groups(HUGE).apply(&line(), &kernel(&[1.0])) => Panic("cannot be divided into 18446744073709551615 equal groups");
        Convolution::new([1], Padding::Valid).feature_groups(0).apply(&line(), &kernel(&[1.0])) => Panic("0 feature groups");
        Convolution::new([1], Padding::Valid).batch_groups(TOP).apply(&line(), &kernel(&[1.0])) => Panic("cannot be divided into 9223372036854775808 equal batch groups");
        Convolution::new([], Padding::Valid).apply(&Tensor::from([[2.0_f32]]), &Tensor::from([[3.0_f32]])) => elements([6.0]);
    });
}
