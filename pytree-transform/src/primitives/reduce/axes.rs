//! What all reductions share: their axes, and the dtype in which they compute.

use std::fmt;

use pytree_base::bug::expect_next;
use pytree_base::lists::Tuple;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::AxisList;

use crate::base::error::TensorError;
use crate::primitives::convert::Convert;
use crate::primitives::create::broadcast_in_dim;
use crate::primitives::shape::batched_axis;
use crate::tensor::Tensor;
use crate::tensor::primitive::Primitive;
use crate::tensor::stablehlo::{Block, Value};

/// Returns the dtype in which an operand is reduced.
pub(super) fn reduced(dtype: Option<DType>, operand: &AbstractArray) -> DType {
    dtype.unwrap_or(operand.dtype)
}

/// Writes the conversion of an operand to the dtype in which it is reduced.
pub(super) fn lower_operand(
    block: &mut Block<'_>,
    operand: &Value,
    dtype: Option<DType>,
) -> Result<Value, TensorError> {
    match dtype.filter(|&dtype| dtype != operand.dtype()) {
        None => Ok(operand.clone()),
        Some(dtype) => {
            let converted = Convert(dtype).lower(block, std::slice::from_ref(operand), &[])?;
            Ok(expect_next(
                &mut converted.into_iter(),
                "a converted operand",
            ))
        }
    }
}

pub(super) fn write(
    axes: &[usize],
    dtype: Option<DType>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "axes={}", Tuple(axes))?;
    dtype.map_or(Ok(()), |dtype| write!(f, " dtype={dtype}"))
}

/// Broadcasts a reduced tensor along the removed axes `axes`, back to the shape before the reduction.
#[track_caller]
pub(super) fn broadcast_back(
    reduced: &Tensor,
    shape: &[usize],
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    let kept: AxisList = (0..shape.len())
        .filter(|axis| !axes.contains(axis))
        .collect();
    broadcast_in_dim(reduced, shape, &kept)
}

/// Returns the reduced axes after a batch axis is inserted at position `batch`. Also returns the position of the batch
/// axis in the result.
pub(super) fn batched_axes(axes: &[usize], batch: usize) -> (AxisList, usize) {
    let axes: AxisList = axes.iter().map(|&axis| batched_axis(axis, batch)).collect();
    let before = axes.iter().filter(|&&axis| axis < batch).count();
    (axes, batch - before)
}

/// Returns an error if an extremum is taken over an empty axis.
pub(super) fn not_empty(
    operation: &'static str,
    operand: &AbstractArray,
    axes: &[usize],
) -> Result<(), TensorError> {
    match axes.iter().find(|&&axis| operand.shape[axis] == 0) {
        None => Ok(()),
        Some(axis) => Err(TensorError::shape(
            operation,
            &[operand],
            format!("axis {axis} has length 0, so it has no extremum"),
            "pass a tensor with at least one element along this axis",
        )),
    }
}

pub(super) fn axes_exist(
    operation: &'static str,
    operand: &AbstractArray,
    axes: &[usize],
) -> Result<(), TensorError> {
    if let Some(&axis) = axes.iter().find(|&&axis| axis >= operand.rank()) {
        return Err(TensorError::axis(operation, operand, axis));
    }
    match axes.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(TensorError::shape(
            operation,
            &[operand],
            format!("axis {} is given twice", pair[0]),
            "give each axis once",
        )),
    }
}
