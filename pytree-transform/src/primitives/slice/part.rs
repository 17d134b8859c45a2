//! A part of a tensor, whose bounds are numbers.
use pytree_kernels::base::shape::{PerAxis, Shape};
use smallvec::SmallVec;

use crate::base::error::TensorError;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;
use crate::tensor::trace::bind_one;

/// Along each axis, selects every `stride`-th element from `start` up to, but not including, `limit`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slice {
    pub(crate) start: PerAxis,
    pub(crate) limit: PerAxis,
    pub(crate) stride: PerAxis,
}

/// Applies [`Slice`] to a tensor, or returns the tensor itself if the slice contains all elements.
#[track_caller]
pub(crate) fn slice(
    operand: &Tensor,
    start: &[usize],
    limit: &[usize],
    stride: &[usize],
) -> Result<Tensor, TensorError> {
    // A stride longer than the axis selects one element. Clamping the stride prevents an overflow in later products.
    let longest = |axis: usize| operand.shape().get(axis).map_or(1, |&length| length.max(1));
    let slice = Slice {
        start: PerAxis::from_slice(start),
        limit: PerAxis::from_slice(limit),
        stride: (0..stride.len())
            .map(|axis| stride[axis].min(longest(axis)))
            .collect(),
    };
    if operand.shape() == limit
        && start.iter().all(|&start| start == 0)
        && stride.iter().all(|&stride| stride == 1)
    {
        return Ok(operand.clone());
    }
    bind_one(&slice, &[operand])
}

impl Slice {
    pub(super) fn result_shape(&self) -> Shape {
        let bounds = self.start.iter().zip(&self.limit).zip(&self.stride);
        bounds
            .map(|((&start, &limit), &stride)| (limit - start).div_ceil(stride))
            .collect()
    }
}

/// Returns a tensor that has a batch axis. A tensor without a batch axis is repeated `size` times along a new first
/// axis.
pub(super) fn batched(
    operand: &Tensor,
    axis: Option<usize>,
    size: usize,
) -> Result<Tensor, TensorError> {
    if axis.is_some() {
        Ok(operand.clone())
    } else {
        batch_axis_first(operand, None, size)
    }
}

/// Returns a copy of `numbers` with `number` inserted at the position `place`.
pub(in crate::primitives) fn inserted<T: Copy>(
    numbers: &SmallVec<[T; 4]>,
    place: usize,
    number: T,
) -> SmallVec<[T; 4]> {
    let mut numbers = numbers.clone();
    numbers.insert(place, number);
    numbers
}
