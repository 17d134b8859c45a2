//! Takes slices at the positions of a tensor of indices.

use std::fmt;

use pytree_core::leaf::NumberKind;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::narrow::{is_narrow, wide};
use pytree_kernels::base::shape::Shape;
use pytree_kernels::loops::gather::{Blocks, Outside};
use smallvec::smallvec;

use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::move_axis;
use crate::tensor::Tensor;
use crate::tensor::stablehlo::{Block, GatherAxes, Value};
use crate::tensor::trace::bind_one;

/// Returns the slices of a tensor along `axis` at the indices. In the result, the axes of the indices replace `axis`.
/// Indices out of range are clamped to the nearest end, as in `jnp.take` with `mode="clip"`, or their slices are zeros.
///
/// The first `batch_axes` axes of both operands are batch axes. Each position on the batch axes is handled separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Take {
    pub(crate) axis: usize,
    pub(crate) outside: Outside,
    pub(crate) batch_axes: usize,
}

/// Returns the slices of `operand` along `axis` at `indices`.
#[track_caller]
pub(crate) fn take(operand: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    bind_one(&Take::clamped(axis, 0), &[operand, indices])
}

/// Returns the elements along the last axis at `indices`. All axes of `indices` except the last have the same lengths
/// as in `operand`.
#[track_caller]
pub(crate) fn take_along_last(operand: &Tensor, indices: &Tensor) -> Result<Tensor, TensorError> {
    let batch_axes = operand.rank().saturating_sub(1);
    bind_one(&Take::clamped(batch_axes, batch_axes), &[operand, indices])
}

pub(super) fn check_indices(
    operation: &'static str,
    operands: &[&AbstractArray],
) -> Result<(), TensorError> {
    if operands[1].dtype.is_integer() {
        return Ok(());
    }
    Err(TensorError::dtype(
        operation,
        operands,
        "integers as indices",
    ))
}

impl Take {
    /// Takes slices at clamped indices.
    pub(crate) fn clamped(axis: usize, batch_axes: usize) -> Self {
        Self {
            axis,
            outside: Outside::Clamp,
            batch_axes,
        }
    }

    pub(super) fn bind(self, operand: &Tensor, indices: &Tensor) -> Tensor {
        or_panic(bind_one(&self, &[operand, indices]))
    }

    pub(crate) fn blocks(self, shape: &[usize]) -> Blocks {
        Blocks {
            batch: shape[..self.batch_axes].iter().product(),
            before: shape[self.batch_axes..self.axis].iter().product(),
            after: shape[self.axis + 1..].iter().product(),
            length: shape[self.axis],
        }
    }

    /// Returns the correspondence between the axes of the operand, the indices and the result.
    pub(super) fn gather_axes(self, operand_rank: usize, indices_rank: usize) -> GatherAxes {
        let behind = self.axis + indices_rank - self.batch_axes;
        let count = operand_rank - self.axis - 1;
        GatherAxes {
            offset: (self.batch_axes..self.axis)
                .chain(behind..behind + count)
                .collect(),
            collapsed: smallvec![self.axis],
            operand_batch: (0..self.batch_axes).collect(),
            indices_batch: (0..self.batch_axes).collect(),
            indexed: smallvec![self.axis],
            components: indices_rank,
        }
    }

    /// Returns the shape of the result: `operand` with `axis` replaced by the axes of `indices`.
    pub(super) fn result_shape(self, operand: &[usize], indices: &[usize]) -> Shape {
        [
            &operand[..self.axis],
            &indices[self.batch_axes..],
            &operand[self.axis + 1..],
        ]
        .concat()
        .into_iter()
        .collect()
    }
}

/// Moves the batch axis of a tensor to the position `first` if the batch axis is before this position. Returns the
/// tensor and the position of its batch axis.
pub(super) fn behind_parallel_axes(
    operand: &Tensor,
    batch: usize,
    first: usize,
) -> (Tensor, usize) {
    if batch >= first {
        return (operand.clone(), batch);
    }
    (or_panic(move_axis(operand, batch, first)), first)
}

/// Writes the positions of indices on an axis of length `length`. A negative index counts from the end. An index out of
/// range is clamped to the nearest end, or becomes a position that is out of range, whose update a scatter of StableHLO drops.
pub(super) fn lower_positions(
    block: &mut Block<'_>,
    indices: &Value,
    length: usize,
    outside: Outside,
) -> Value {
    // Adding the length to a negative index must not overflow.
    let wide = match indices.dtype() {
        DType::I32 if i32::try_from(length).is_err() => DType::I64,
        // XLA compares a position with the length as a signed number.
        dtype if outside == Outside::Drop && dtype.kind() == NumberKind::Unsigned => DType::I64,
        dtype if is_narrow(dtype) => wide(dtype),
        dtype => dtype,
    };
    let indices = &block.converted(indices, wide);
    let length = length as f64;
    let below_length = |block: &mut Block<'_>, positions: &Value| {
        let last = block.number_like(indices, length - 1.0);
        block.binary("stablehlo.minimum", positions, &last)
    };
    if indices.dtype().kind() == NumberKind::Unsigned {
        return below_length(block, indices);
    }
    let zero = block.number_like(indices, 0.0);
    let is_negative = block.comparison("LT", indices, &zero);
    let from_end = block.binary_with("stablehlo.add", indices, length);
    let positions = block.selection(&is_negative, &from_end, indices);
    if outside == Outside::Drop {
        return positions;
    }
    let positions = block.binary("stablehlo.maximum", &positions, &zero);
    below_length(block, &positions)
}

pub(super) fn write_batch_axes(f: &mut fmt::Formatter<'_>, batch_axes: usize) -> fmt::Result {
    if batch_axes == 0 {
        Ok(())
    } else {
        write!(f, " batch_axes={batch_axes}")
    }
}
