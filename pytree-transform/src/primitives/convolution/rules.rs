//! The transposes and the batching rule of a convolution. Each of these rules returns a convolution.

use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::{AxisList, Shape};

use super::{Axes, Convolution, DimensionNumbers, convolve};
use crate::base::error::or_panic;
use crate::primitives::create;
use crate::primitives::shape::{move_axis, reshape};
use crate::primitives::slice::reverse;
use crate::primitives::sliding::Sliding;
use crate::tensor::Tensor;
use crate::tensor::primitive::{Batched, Primitive, alone, one};

/// Splits an axis into two axes: an axis of `groups` groups, and an axis of the elements of a group.
fn split(tensor: &Tensor, axis: usize, groups: usize) -> Tensor {
    let mut shape = Shape::from(tensor.shape());
    shape[axis] /= groups;
    shape.insert(axis, groups);
    or_panic(reshape(tensor, &shape))
}

/// Joins an axis and the next axis.
fn joined(tensor: &Tensor, axis: usize) -> Tensor {
    let mut shape = Shape::from(tensor.shape());
    let behind = shape.remove(axis + 1);
    shape[axis] *= behind;
    or_panic(reshape(tensor, &shape))
}

/// Moves an axis to another position.
fn moved(tensor: &Tensor, from: usize, to: usize) -> Tensor {
    or_panic(move_axis(tensor, from, to))
}

/// Splits the axis `from` into groups. Joins the axis of the groups and the axis `to`. On the joined axis, the elements
/// of one group are neighbours.
fn move_groups(tensor: &Tensor, groups: usize, from: usize, to: usize) -> Tensor {
    if groups == 1 {
        return tensor.clone();
    }
    // The groups become the axis before the axis `to`. `to` is the index of this axis in the tensor without the axis of
    // groups.
    joined(&moved(&split(tensor, from, groups), from, to), to)
}

impl Convolution {
    /// Returns the convolution with other strides, paddings, dilations and dimension numbers.
    fn with(&self, slidings: &[Sliding], numbers: DimensionNumbers) -> Self {
        Self {
            strides: slidings.iter().map(|sliding| sliding.stride).collect(),
            padding: slidings.iter().map(|sliding| sliding.padding).collect(),
            input_dilation: slidings.iter().map(|sliding| sliding.dilation).collect(),
            kernel_dilation: slidings
                .iter()
                .map(|sliding| sliding.window_dilation)
                .collect(),
            numbers,
            ..self.clone()
        }
    }

    /// Returns the geometry of each spatial axis, and the number of windows along the axis.
    fn counted(
        &self,
        input: &[usize],
        kernel: &[usize],
        cotangent: &Tensor,
    ) -> Vec<(Sliding, usize)> {
        let counts = self
            .numbers
            .result
            .space
            .iter()
            .map(|&axis| cotangent.shape()[axis]);
        self.slidings(input, kernel)
            .into_iter()
            .zip(counts)
            .collect()
    }

    /// Returns the cotangent of the input: a convolution of the cotangent with the reversed kernel. Within each group,
    /// the input and output features of the kernel are swapped.
    pub(super) fn cotangent_of_input(
        &self,
        cotangent: &Tensor,
        input: &AbstractArray,
        kernel: &Tensor,
    ) -> Tensor {
        if cotangent.is_empty() {
            return create::zeros(input);
        }
        let Axes {
            outer, features, ..
        } = self.numbers.kernel;
        let groups = self.feature_groups.max(self.batch_groups);
        let counted = self.counted(&input.shape, kernel.shape(), cotangent);
        let slidings: Vec<_> = counted
            .iter()
            .map(|(sliding, count)| sliding.transposed(*count))
            .collect();
        let numbers = DimensionNumbers {
            input: self.numbers.result.clone(),
            kernel: self.numbers.kernel.swapped(),
            result: self.numbers.input.clone(),
        };
        let convolution = Self {
            feature_groups: groups,
            batch_groups: 1,
            ..self.with(&slidings, numbers)
        };
        let kernel = move_groups(kernel, groups, outer, features);
        let kernel = or_panic(reverse(&kernel, &self.reversed_axes(kernel.shape())));
        let result = or_panic(convolve(&convolution, cotangent, &kernel));
        let Axes {
            outer, features, ..
        } = self.numbers.input;
        move_groups(&result, self.batch_groups, features, outer)
    }

    /// Returns the spatial axes of the kernel along which a reversal has an effect.
    fn reversed_axes(&self, kernel: &[usize]) -> AxisList {
        let space = self.numbers.kernel.space.iter().copied();
        space.filter(|&axis| kernel[axis] > 1).collect()
    }

    /// Returns the cotangent of the kernel: a convolution of the input with the cotangent. The features of the input
    /// become examples. Feature groups become batch groups, and batch groups become feature groups.
    pub(super) fn cotangent_of_kernel(
        &self,
        cotangent: &Tensor,
        input: &Tensor,
        kernel: &AbstractArray,
    ) -> Tensor {
        if cotangent.is_empty() {
            return create::zeros(kernel);
        }
        let counted = self.counted(input.shape(), &kernel.shape, cotangent);
        let slidings: Vec<_> = counted
            .iter()
            .map(|(sliding, count)| sliding.of_window(*count))
            .collect();
        let numbers = DimensionNumbers {
            input: self.numbers.input.swapped(),
            kernel: self.numbers.result.swapped(),
            result: self.numbers.kernel.swapped(),
        };
        let convolution = Self {
            feature_groups: self.batch_groups,
            batch_groups: self.feature_groups,
            ..self.with(&slidings, numbers)
        };
        or_panic(convolve(&convolution, input, cotangent))
    }

    /// Batches the convolution. If both operands have a batch axis, each element of the batch has its own groups.
    /// Otherwise, the batch axis is joined to the examples or to the output features.
    pub(super) fn batched(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
    ) -> Batched {
        if size == 0 && axes.iter().any(Option::is_some) {
            return self.empty_batch(operands, axes);
        }
        let (input, kernel) = (&operands[0], &operands[1]);
        match (axes[0], axes[1]) {
            (None, None) => alone(self, operands),
            (Some(of_input), Some(of_kernel)) => {
                self.batched_both(input, of_input, kernel, of_kernel, size)
            }
            (Some(axis), None) => self.batched_input(input, axis, kernel, size),
            (None, Some(axis)) => self.batched_kernel(input, kernel, axis, size),
        }
    }

    fn empty_batch(&self, operands: &[Tensor], axes: &[Option<usize>]) -> Batched {
        let example = |(operand, axis): (&Tensor, &Option<usize>)| {
            let mut info = operand.info().clone();
            if let Some(axis) = *axis {
                info.shape.remove(axis);
            }
            info
        };
        let examples: Vec<AbstractArray> = operands.iter().zip(axes).map(example).collect();
        let references: Vec<&AbstractArray> = examples.iter().collect();
        let mut result = or_panic(self.abstract_evaluation(&references)).remove(0);
        result.shape.insert(0, 0);
        (one(create::zeros(&result)), one(Some(0)))
    }

    /// Batches a convolution of two batched operands. Each element of the batch has its own groups, which are
    /// neighbours.
    fn batched_both(
        &self,
        input: &Tensor,
        of_input: usize,
        kernel: &Tensor,
        of_kernel: usize,
        size: usize,
    ) -> Batched {
        let (mut convolution, numbers) = (self.clone(), &self.numbers);
        let axis = if self.batch_groups > 1 {
            convolution.batch_groups *= size;
            numbers.input.outer
        } else {
            convolution.feature_groups *= size;
            numbers.input.features
        };
        let input = joined(&moved(input, of_input, axis), axis);
        let output = numbers.kernel.outer;
        let kernel = joined(&moved(kernel, of_kernel, output), output);
        let result = or_panic(convolve(&convolution, &input, &kernel));
        let features = numbers.result.features;
        (one(split(&result, features, size)), one(Some(features)))
    }

    /// Batches a convolution of a batched input. Within each batch group, the batch axis is joined to the examples.
    fn batched_input(
        &self,
        input: &Tensor,
        of_input: usize,
        kernel: &Tensor,
        size: usize,
    ) -> Batched {
        let axis = self.numbers.input.outer;
        let input = within_groups(&moved(input, of_input, axis), axis, self.batch_groups);
        let result = or_panic(convolve(self, &input, kernel));
        let outer = self.numbers.result.outer;
        (one(split(&result, outer, size)), one(Some(outer)))
    }

    /// Batches a convolution of a batched kernel. Within each group, the batch axis is joined to the output features.
    fn batched_kernel(
        &self,
        input: &Tensor,
        kernel: &Tensor,
        of_kernel: usize,
        size: usize,
    ) -> Batched {
        let groups = self.feature_groups.max(self.batch_groups);
        let axis = self.numbers.kernel.outer;
        let kernel = within_groups(&moved(kernel, of_kernel, axis), axis, groups);
        let result = or_panic(convolve(self, input, &kernel));
        let features = self.numbers.result.features;
        if groups == 1 {
            return (one(split(&result, features, size)), one(Some(features)));
        }
        let result = split(&split(&result, features, groups), features + 1, size);
        let result = joined(&moved(&result, features + 1, features), features + 1);
        (one(result), one(Some(features)))
    }
}

/// Joins the batch axis `axis` and the next axis, which has `groups` groups. Within each group, the elements that
/// belong to the same batch index are neighbours.
fn within_groups(tensor: &Tensor, axis: usize, groups: usize) -> Tensor {
    if groups == 1 {
        return joined(tensor, axis);
    }
    // [batch, groups · rest] becomes [groups, batch, rest].
    let grouped = moved(&split(tensor, axis + 1, groups), axis + 1, axis);
    joined(&joined(&grouped, axis + 1), axis)
}
