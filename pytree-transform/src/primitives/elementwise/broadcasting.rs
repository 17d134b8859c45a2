//! Broadcasting of tensors to a common shape, the check of their types, and alignment of batch axes for elementwise batching rules.

use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::pattern::common_shape;

use crate::base::error::{TensorError, or_panic};
use crate::tensor::Tensor;
use crate::tensor::device::beside;
use crate::tensor::primitive::Primitive;
use crate::tensor::trace::{bind_one, bind_repeating};

/// Applies an elementwise primitive to two tensors, which are broadcast to their common shape.
#[track_caller]
pub(crate) fn bind_broadcast(
    primitive: &dyn Primitive,
    left: &Tensor,
    right: &Tensor,
) -> Result<Tensor, TensorError> {
    if left.shape() != right.shape()
        && let Some(result) = bind_repeating(primitive, &[left, right])?
    {
        return Ok(result);
    }
    let (left, right) = broadcast_together(primitive.name(), left, right)?;
    bind_one(primitive, &[&left, &right])
}

/// Broadcasts two tensors to their common shape by NumPy's rule.
#[track_caller]
pub(crate) fn broadcast_together(
    operation: &'static str,
    left: &Tensor,
    right: &Tensor,
) -> Result<(Tensor, Tensor), TensorError> {
    if left.shape() == right.shape() {
        return Ok((left.clone(), right.clone()));
    }
    let shape = common_shape([left.shape(), right.shape()].into_iter()).ok_or_else(|| {
        TensorError::shape(
            operation,
            &[left.info(), right.info()],
            "the shapes do not broadcast: counted from the last axis, lengths must be equal or 1",
            "reshape one of the tensors",
        )
    })?;
    // If an operand is a number that must be repeated, create it on the device of the other operand.
    let _device = beside([left, right]);
    Ok((
        crate::primitives::create::broadcast_to(left, &shape)?,
        crate::primitives::create::broadcast_to(right, &shape)?,
    ))
}

/// Moves the batch axes of all operands to the front. If all batch axes already have the same position, returns the
/// operands unchanged.
pub(crate) fn align_batch(operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Vec<Tensor> {
    if let Some(&Some(axis)) = axes.first()
        && axes.iter().all(|&other| other == Some(axis))
    {
        return operands.to_vec();
    }
    operands
        .iter()
        .zip(axes)
        .map(|(operand, axis)| {
            or_panic(crate::primitives::shape::batch_axis_first(
                operand, *axis, size,
            ))
        })
        .collect()
}

/// Returns the position of the batch axis in operands that [`align_batch`] aligned, and in the results.
pub(crate) fn aligned_axis(axes: &[Option<usize>]) -> usize {
    match axes.first() {
        Some(&Some(axis)) if axes.iter().all(|&other| other == Some(axis)) => axis,
        _ => 0,
    }
}

/// Returns an error unless the operands have the same dtype and shape.
pub(crate) fn same_info(
    operation: &'static str,
    operands: &[&AbstractArray],
) -> Result<(), TensorError> {
    if operands
        .windows(2)
        .any(|pair| pair[0].dtype != pair[1].dtype)
    {
        return Err(TensorError::dtype(
            operation,
            operands,
            "the same element type in all tensors",
        ));
    }
    if operands
        .windows(2)
        .any(|pair| pair[0].shape != pair[1].shape)
    {
        return Err(TensorError::shape(
            operation,
            operands,
            "the shapes differ",
            "broadcast them first",
        ));
    }
    Ok(())
}
