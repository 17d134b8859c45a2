//! The transposes and the batching rule of a convolution. Each of these rules returns a convolution.
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::{AxisList, Shape};
use pytree_kernels::loops::convolution::{Axes, Convolution, DimensionNumbers};
use pytree_kernels::loops::sliding::Sliding;

use crate::base::error::{TensorError, or_panic};
use crate::primitives::create;
use crate::primitives::shape::{move_axis, reshape};
use crate::primitives::slice::reverse;
use crate::tensor::Tensor;
use crate::tensor::primitive::{Batched, Primitive, one};
use crate::tensor::trace::{alone, bind_one};

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

/// Returns the convolution with other strides, paddings, dilations and dimension numbers.
fn with(convolution: &Convolution, slidings: &[Sliding], numbers: DimensionNumbers) -> Convolution {
    Convolution {
        strides: slidings.iter().map(|sliding| sliding.stride).collect(),
        padding: slidings.iter().map(|sliding| sliding.padding).collect(),
        input_dilation: slidings.iter().map(|sliding| sliding.dilation).collect(),
        kernel_dilation: slidings
            .iter()
            .map(|sliding| sliding.window_dilation)
            .collect(),
        numbers,
        ..convolution.clone()
    }
}

/// Returns the geometry of each spatial axis, and the number of windows along the axis.
fn counted(
    convolution: &Convolution,
    input: &[usize],
    kernel: &[usize],
    cotangent: &Tensor,
) -> Vec<(Sliding, usize)> {
    let counts = convolution
        .numbers
        .result
        .space
        .iter()
        .map(|&axis| cotangent.shape()[axis]);
    convolution
        .slidings(input, kernel)
        .into_iter()
        .zip(counts)
        .collect()
}

/// Returns the cotangent of the input: a convolution of the cotangent with the reversed kernel. Within each group,
/// the input and output features of the kernel are swapped.
pub(super) fn cotangent_of_input(
    convolution: &Convolution,
    cotangent: &Tensor,
    input: &AbstractArray,
    kernel: &Tensor,
) -> Tensor {
    if cotangent.is_empty() {
        return create::zeros(input);
    }
    let Axes {
        outer, features, ..
    } = convolution.numbers.kernel;
    let groups = convolution.feature_groups.max(convolution.batch_groups);
    let counted = counted(convolution, &input.shape, kernel.shape(), cotangent);
    let slidings: Vec<_> = counted
        .iter()
        .map(|(sliding, count)| sliding.transposed(*count))
        .collect();
    let numbers = DimensionNumbers {
        input: convolution.numbers.result.clone(),
        kernel: convolution.numbers.kernel.swapped(),
        result: convolution.numbers.input.clone(),
    };
    let transposed = Convolution {
        feature_groups: groups,
        batch_groups: 1,
        ..with(convolution, &slidings, numbers)
    };
    let kernel = move_groups(kernel, groups, outer, features);
    let kernel = or_panic(reverse(
        &kernel,
        &reversed_axes(convolution, kernel.shape()),
    ));
    let result = or_panic(convolve(&transposed, cotangent, &kernel));
    let Axes {
        outer, features, ..
    } = convolution.numbers.input;
    move_groups(&result, convolution.batch_groups, features, outer)
}

/// Returns the spatial axes of the kernel along which a reversal has an effect.
fn reversed_axes(convolution: &Convolution, kernel: &[usize]) -> AxisList {
    let space = convolution.numbers.kernel.space.iter().copied();
    space.filter(|&axis| kernel[axis] > 1).collect()
}

/// Returns the cotangent of the kernel: a convolution of the input with the cotangent. The features of the input
/// become examples. Feature groups become batch groups, and batch groups become feature groups.
pub(super) fn cotangent_of_kernel(
    convolution: &Convolution,
    cotangent: &Tensor,
    input: &Tensor,
    kernel: &AbstractArray,
) -> Tensor {
    if cotangent.is_empty() {
        return create::zeros(kernel);
    }
    let counted = counted(convolution, input.shape(), &kernel.shape, cotangent);
    let slidings: Vec<_> = counted
        .iter()
        .map(|(sliding, count)| sliding.of_window(*count))
        .collect();
    let numbers = DimensionNumbers {
        input: convolution.numbers.input.swapped(),
        kernel: convolution.numbers.result.swapped(),
        result: convolution.numbers.kernel.swapped(),
    };
    let transposed = Convolution {
        feature_groups: convolution.batch_groups,
        batch_groups: convolution.feature_groups,
        ..with(convolution, &slidings, numbers)
    };
    or_panic(convolve(&transposed, input, cotangent))
}

/// Batches the convolution. If both operands have a batch axis, each element of the batch has its own groups.
/// Otherwise, the batch axis is joined to the examples or to the output features.
pub(super) fn batched(
    convolution: &Convolution,
    operands: &[Tensor],
    axes: &[Option<usize>],
    size: usize,
) -> Batched {
    if size == 0 && axes.iter().any(Option::is_some) {
        return empty_batch(convolution, operands, axes);
    }
    let (input, kernel) = (&operands[0], &operands[1]);
    match (axes[0], axes[1]) {
        (None, None) => alone(convolution, operands),
        (Some(of_input), Some(of_kernel)) => {
            batched_both(convolution, input, of_input, kernel, of_kernel, size)
        }
        (Some(axis), None) => batched_input(convolution, input, axis, kernel, size),
        (None, Some(axis)) => batched_kernel(convolution, input, kernel, axis, size),
    }
}

fn empty_batch(convolution: &Convolution, operands: &[Tensor], axes: &[Option<usize>]) -> Batched {
    let example = |(operand, axis): (&Tensor, &Option<usize>)| {
        let mut info = operand.info().clone();
        if let Some(axis) = *axis {
            info.shape.remove(axis);
        }
        info
    };
    let examples: Vec<AbstractArray> = operands.iter().zip(axes).map(example).collect();
    let references: Vec<&AbstractArray> = examples.iter().collect();
    let mut result = or_panic(convolution.abstract_evaluation(&references)).remove(0);
    result.shape.insert(0, 0);
    (one(create::zeros(&result)), one(Some(0)))
}

/// Batches a convolution of two batched operands. Each element of the batch has its own groups, which are
/// neighbours.
fn batched_both(
    convolution: &Convolution,
    input: &Tensor,
    of_input: usize,
    kernel: &Tensor,
    of_kernel: usize,
    size: usize,
) -> Batched {
    let (mut batched, numbers) = (convolution.clone(), &convolution.numbers);
    let axis = if convolution.batch_groups > 1 {
        batched.batch_groups *= size;
        numbers.input.outer
    } else {
        batched.feature_groups *= size;
        numbers.input.features
    };
    let input = joined(&moved(input, of_input, axis), axis);
    let output = numbers.kernel.outer;
    let kernel = joined(&moved(kernel, of_kernel, output), output);
    let result = or_panic(convolve(&batched, &input, &kernel));
    let features = numbers.result.features;
    (one(split(&result, features, size)), one(Some(features)))
}

/// Batches a convolution of a batched input. Within each batch group, the batch axis is joined to the examples.
fn batched_input(
    convolution: &Convolution,
    input: &Tensor,
    of_input: usize,
    kernel: &Tensor,
    size: usize,
) -> Batched {
    let axis = convolution.numbers.input.outer;
    let input = within_groups(
        &moved(input, of_input, axis),
        axis,
        convolution.batch_groups,
    );
    let result = or_panic(convolve(convolution, &input, kernel));
    let outer = convolution.numbers.result.outer;
    (one(split(&result, outer, size)), one(Some(outer)))
}

/// Batches a convolution of a batched kernel. Within each group, the batch axis is joined to the output features.
fn batched_kernel(
    convolution: &Convolution,
    input: &Tensor,
    kernel: &Tensor,
    of_kernel: usize,
    size: usize,
) -> Batched {
    let groups = convolution.feature_groups.max(convolution.batch_groups);
    let axis = convolution.numbers.kernel.outer;
    let kernel = within_groups(&moved(kernel, of_kernel, axis), axis, groups);
    let result = or_panic(convolve(convolution, input, &kernel));
    let features = convolution.numbers.result.features;
    if groups == 1 {
        return (one(split(&result, features, size)), one(Some(features)));
    }
    let result = split(&split(&result, features, groups), features + 1, size);
    let result = joined(&moved(&result, features + 1, features), features + 1);
    (one(result), one(Some(features)))
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

/// Applies a [`Convolution`] to an input and a kernel.
#[track_caller]
pub(crate) fn convolve(
    convolution: &Convolution,
    input: &Tensor,
    kernel: &Tensor,
) -> Result<Tensor, TensorError> {
    bind_one(convolution, &[input, kernel])
}
