//! Broadcasts, reshapes and transposes, which arrange the same elements along other axes.

use std::sync::Arc;

use pytree_base::lists::Tuple;
use pytree_kernels::base::array::row_major_strides;
use pytree_kernels::base::shape::{AxisList, PerAxis, Shape, sorting_permutation};
use pytree_kernels::loops::strided::{gather, joined_axes};

use super::create::{Broadcast, broadcast_in_dim, is_identity};
use crate::primitives::prelude::*;
use crate::primitives::reduce;
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::LoweredOne;

/// Reinterprets the elements in row-major order with another shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reshape {
    pub(crate) shape: Shape,
}

/// Permutes the axes: axis `i` of the result is axis `permutation[i]` of the operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transpose {
    pub(crate) permutation: AxisList,
}

/// Reshapes a tensor in row-major order, or returns the tensor itself if it already has the shape.
#[track_caller]
pub(crate) fn reshape(operand: &Tensor, shape: &[usize]) -> Result<Tensor, TensorError> {
    if operand.shape() == shape {
        return Ok(operand.clone());
    }
    bind_one(
        &Reshape {
            shape: Shape::from(shape),
        },
        &[operand],
    )
}

/// Permutes the axes: axis `i` of the result is axis `permutation[i]` of the operand. Returns the tensor itself if
/// nothing changes.
#[track_caller]
pub(crate) fn transpose(operand: &Tensor, permutation: &[usize]) -> Result<Tensor, TensorError> {
    if permutation.len() == operand.rank() && is_identity(permutation) {
        return Ok(operand.clone());
    }
    bind_one(
        &Transpose {
            permutation: AxisList::from_slice(permutation),
        },
        &[operand],
    )
}

/// Moves axis `from` to position `to`. The other axes keep their order.
#[track_caller]
pub(crate) fn move_axis(operand: &Tensor, from: usize, to: usize) -> Result<Tensor, TensorError> {
    let mut permutation: AxisList = (0..operand.rank()).filter(|&axis| axis != from).collect();
    permutation.insert(to, from);
    transpose(operand, &permutation)
}

/// Moves the batch axis of a tensor to the front. A tensor without a batch axis is repeated `size` times along a new
/// first axis.
#[track_caller]
pub(crate) fn batch_axis_first(
    operand: &Tensor,
    axis: Option<usize>,
    size: usize,
) -> Result<Tensor, TensorError> {
    if let Some(axis) = axis {
        return move_axis(operand, axis, 0);
    }
    let places: AxisList = (1..=operand.rank()).collect();
    broadcast_in_dim(operand, &with_front(size, operand.shape()), &places)
}

/// Returns `shape` with a leading axis of the given length.
pub(crate) fn with_front(length: usize, shape: &[usize]) -> Shape {
    std::iter::once(length)
        .chain(shape.iter().copied())
        .collect()
}

/// Returns the axis of a batched tensor that corresponds to `axis` of one example. The batch axis is at position
/// `batch`.
pub(crate) fn batched_axis(axis: usize, batch: usize) -> usize {
    axis + usize::from(axis >= batch)
}

/// Returns an error if the positions along an axis do not fit into i32.
pub(crate) fn check_positions(
    operation: &'static str,
    operand: &AbstractArray,
    axis: usize,
) -> Result<(), TensorError> {
    let last = operand.shape[axis].saturating_sub(1);
    if operand.is_empty() || i32::try_from(last).is_ok() {
        return Ok(());
    }
    Err(TensorError::shape(
        operation,
        &[operand],
        format!("the position {last} of axis {axis} does not fit i32, the type of the result"),
        "split the axis into shorter axes with `.reshape(…)`",
    ))
}

impl LinearPrimitive for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast_in_dim"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let refused = |problem: String| {
            TensorError::shape(
                "broadcast",
                &[operand],
                problem,
                "only an axis of length 1 can be repeated; reshape the tensor first",
            )
        };
        let increasing = self.axes.windows(2).all(|pair| pair[0] < pair[1]);
        if self.axes.len() != operand.rank()
            || !increasing
            || self
                .axes
                .last()
                .is_some_and(|&last| last >= self.shape.len())
        {
            return Err(refused(format!(
                "the list {:?} must contain, in ascending order, one axis of the shape {:?} for each axis of the tensor",
                self.axes, self.shape
            )));
        }
        for (axis, (&length, &place)) in operand.shape.iter().zip(&self.axes).enumerate() {
            if length != 1 && length != self.shape[place] {
                return Err(refused(format!(
                    "axis {axis} has length {length}, but axis {place} of the shape {:?} has length {}",
                    self.shape, self.shape[place]
                )));
            }
        }
        Ok(AbstractArray::new(operand.dtype, &self.shape))
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        if operand.info.len() == self.shape.iter().product::<usize>() {
            return Array::reshaped(operand, &self.shape);
        }
        let mut strides: PerAxis<isize> = smallvec![0; self.shape.len()];
        for ((&length, &stride), &axis) in operand
            .shape()
            .iter()
            .zip(&row_major_strides(operand.shape()))
            .zip(&self.axes)
        {
            strides[axis] = if length == 1 { 0 } else { stride.cast_signed() };
        }
        gather(&operand, &self.shape, &strides, 0)
    }

    /// Sums the cotangent over the repeated axes.
    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor {
        let repeated = |axis: &usize| match self.axes.iter().position(|place| place == axis) {
            Some(position) => operand.shape[position] != self.shape[*axis],
            None => true,
        };
        let axes: AxisList = (0..self.shape.len()).filter(repeated).collect();
        let summed = or_panic(reduce::sum(cotangent, &axes));
        or_panic(reshape(&summed, &operand.shape))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let operand = or_panic(move_axis(operand, axis, 0));
        let shape = with_front(operand.shape()[0], &self.shape);
        let axes: AxisList = std::iter::once(0)
            .chain(self.axes.iter().map(|axis| axis + 1))
            .collect();
        (or_panic(broadcast_in_dim(&operand, &shape, &axes)), 0)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        Ok(block.broadcast(operand, &self.shape, &self.axes))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "shape={} broadcast_dimensions={}",
            Tuple(&self.shape),
            Tuple(&self.axes)
        )
    }

    fn apply(&self, operand: &Tensor) -> Result<Tensor, TensorError> {
        broadcast_in_dim(operand, &self.shape, &self.axes)
    }
}

impl LinearPrimitive for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let wanted = self
            .shape
            .iter()
            .try_fold(1_usize, |product, &length| product.checked_mul(length));
        if wanted != Some(operand.len()) {
            return Err(TensorError::shape(
                "reshape",
                &[operand],
                format!(
                    "it has {} elements, but the shape {:?} has {}",
                    operand.len(),
                    self.shape,
                    wanted.map_or_else(
                        || "too many to count".to_owned(),
                        |wanted| wanted.to_string()
                    )
                ),
                "choose lengths whose product is the number of elements",
            ));
        }
        Ok(AbstractArray::new(operand.dtype, &self.shape))
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        Array::reshaped(operand, &self.shape)
    }

    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor {
        or_panic(reshape(cotangent, &operand.shape))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let operand = or_panic(move_axis(operand, axis, 0));
        let shape = with_front(operand.shape()[0], &self.shape);
        (or_panic(reshape(&operand, &shape)), 0)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        Ok(block.reshaped(operand, &self.shape))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "new_sizes={}", Tuple(&self.shape))
    }
}

impl LinearPrimitive for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let mut sorted = self.permutation.clone();
        sorted.sort_unstable();
        if sorted.len() != operand.rank() || !is_identity(&sorted) {
            return Err(TensorError::shape(
                "transpose",
                &[operand],
                format!(
                    "the permutation {:?} does not contain each of its {} axes once",
                    self.permutation,
                    operand.rank()
                ),
                "list each axis once, in the order of the axes of the result",
            ));
        }
        let shape = self
            .permutation
            .iter()
            .map(|&axis| operand.shape[axis])
            .collect();
        Ok(AbstractArray {
            dtype: operand.dtype,
            shape,
        })
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        let strides = row_major_strides(operand.shape());
        let shape: Shape = self
            .permutation
            .iter()
            .map(|&axis| operand.shape()[axis])
            .collect();
        let strides: PerAxis<isize> = self
            .permutation
            .iter()
            .map(|&axis| strides[axis].cast_signed())
            .collect();
        match joined_axes(&shape, &strides).1.as_slice() {
            [] | [1] => Array::reshaped(operand, &shape),
            _ => gather(&operand, &shape, &strides, 0),
        }
    }

    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        or_panic(transpose(
            cotangent,
            &sorting_permutation(&self.permutation),
        ))
    }

    /// Moves the batch axis to the front as part of the transpose.
    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let axes = self
            .permutation
            .iter()
            .map(|&place| batched_axis(place, axis));
        let permutation: AxisList = std::iter::once(axis).chain(axes).collect();
        (or_panic(transpose(operand, &permutation)), 0)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        Ok(block.transposed(operand, &self.permutation))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permutation={}", Tuple(&self.permutation))
    }
}

#[cfg(test)]
pub(crate) mod tests;
