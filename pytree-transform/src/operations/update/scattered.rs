//! Updates at the indices in a tensor, by scatters along an axis.

use std::panic::Location;

use pytree_kernels::base::dtype::DType;
use pytree_kernels::primitives::elementwise::{Binary, Comparison};
use pytree_kernels::primitives::gather::ScatterBy;

use super::Update;
use crate::base::error::TensorError;
use crate::operations::axes::axis_of;
use crate::primitives::convert::convert;
use crate::primitives::create;
use crate::primitives::elementwise::{binary, compare};
use crate::primitives::gather::{scatter_add, scatter_by, take};
use crate::primitives::select::select;
use crate::primitives::shape::broadcast_in_dim;
use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;

/// Indices along an axis, and a tensor of bools that is true for the indices in range. Negative indices count from the
/// end.
pub(super) struct Scattered {
    axis: usize,
    indices: Tensor,
    on_axis: Tensor,
}

impl Scattered {
    #[track_caller]
    pub(super) fn new(tensor: &Tensor, indices: &Tensor, axis: isize) -> Result<Self, TensorError> {
        let axis = axis_of("update", tensor.info(), axis)?;
        if indices.dtype().is_float() || indices.dtype() == DType::Bool {
            return Err(TensorError::dtype(
                "update at indices",
                &[tensor.info(), indices.info()],
                "integers as indices",
            ));
        }
        let length = tensor.shape()[axis];
        let range = indices.dtype().integer_range();
        let holds_length = range.is_none_or(|(_, greatest)| {
            i64::try_from(length).is_ok_and(|length| length <= greatest)
        });
        let indices = if holds_length {
            indices.clone()
        } else {
            convert(indices, DType::I64)?
        };
        let number = |number: f64| Tensor::constant(indices.dtype(), number);
        // `-length` is the least index. An unsigned dtype cannot hold `-length`, and the conversion replaces it by 0.
        let (first, length) = (number(-(length as f64)), number(length as f64));
        let not_before = compare(Comparison::Ge, &indices, &first)?;
        let below = compare(Comparison::Lt, &indices, &length)?;
        Ok(Self {
            axis,
            on_axis: binary(Binary::And, &not_before, &below)?,
            indices,
        })
    }

    /// Returns the shape of the part of `tensor` that the indices select.
    pub(super) fn shape(&self, tensor: &Tensor) -> Vec<usize> {
        let (before, after) = tensor.shape().split_at(self.axis);
        [before, self.indices.shape(), &after[1..]].concat()
    }

    /// Replaces each update whose index is out of range by `neutral`, so that this update changes nothing.
    #[track_caller]
    fn dropped(&self, updates: &Tensor, neutral: f64) -> Result<Tensor, TensorError> {
        let places = self.axis..self.axis + self.indices.rank();
        let on_axis = broadcast_in_dim(
            &self.on_axis,
            updates.shape(),
            &places.collect::<Vec<usize>>(),
        )?;
        let neutral = create::full(updates.dtype(), updates.shape(), neutral)?;
        select(&on_axis, updates, &neutral)
    }

    #[track_caller]
    pub(super) fn update(
        &self,
        tensor: &Tensor,
        update: Update,
        updates: &Tensor,
    ) -> Result<Tensor, TensorError> {
        let (axis, length) = (self.axis, tensor.shape()[self.axis]);
        if length == 0 || updates.is_empty() {
            return Ok(tensor.clone());
        }
        let by = |by, neutral| {
            let updates = self.dropped(updates, neutral)?;
            scatter_by(by, tensor, &self.indices, &updates, axis)
        };
        at_line_by_default(Location::caller(), || match update {
            Update::Set => self.set(tensor, updates),
            Update::Add => {
                let updates = self.dropped(updates, 0.0)?;
                let added = scatter_add(&updates, &self.indices, axis, length)?;
                binary(Binary::Add, tensor, &added)
            }
            Update::Multiply => by(ScatterBy::Multiply, 1.0),
            // The infinities are converted to the dtype of the tensor. In an integer dtype, the infinities become the
            // greatest and the least value.
            Update::Min => by(ScatterBy::Min, f64::INFINITY),
            Update::Max => by(ScatterBy::Max, f64::NEG_INFINITY),
        })
    }

    /// Writes the last update to each position that has updates.
    #[track_caller]
    fn set(&self, tensor: &Tensor, updates: &Tensor) -> Result<Tensor, TensorError> {
        let (axis, length) = (self.axis, tensor.shape()[self.axis]);
        let count = self.indices.len();
        let none = create::full(DType::I32, &[length], -1.0)?;
        let numbers = create::iota(DType::I32, &[count], 0)?;
        let dropped = create::full(DType::I32, &[count], -1.0)?;
        let on_axis = self.on_axis.try_reshape([count])?;
        let numbers = select(&on_axis, &numbers, &dropped)?;
        let indices = self.indices.try_reshape([count])?;
        let last = scatter_by(ScatterBy::Max, &none, &indices, &numbers, 0)?;
        let (before, after) = tensor.shape().split_at(axis);
        let flat = updates.try_reshape([before, &[count], &after[1..]].concat())?;
        let chosen = take(&flat, &last, axis)?;
        let changed = compare(Comparison::Ge, &last, &Tensor::scalar(0_i32))?;
        select(
            &broadcast_in_dim(&changed, tensor.shape(), &[axis])?,
            &chosen,
            tensor,
        )
    }
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::AbstractArray;

    use super::*;
    use crate::tensor::stage::stage;
    use crate::tensor::trace::Recorder;

    #[test]
    fn narrow_index_dtype_reaches_long_axes() {
        let recorded = |length: usize, dtype: DType| {
            let infos = [
                AbstractArray::new(DType::Bool, [length]),
                AbstractArray::new(dtype, [1]),
            ];
            let (jaxpr, _, ()) = stage(Recorder::EvalShape, &infos, |inputs| {
                (
                    vec![inputs[0].at_indices(&inputs[1], 0).set(Tensor::from(true))],
                    (),
                )
            });
            jaxpr.to_string()
        };
        let text = recorded(3_000_000_000, DType::I32);
        assert!(
            text.contains("[dtype=i64 shape=(1,) value=3000000000.0]"),
            "{text}"
        );
        let text = recorded(3_000_000_000, DType::U32);
        assert!(
            text.contains("[dtype=u32 shape=(1,) value=3000000000.0]"),
            "{text}"
        );
        let text = recorded(5_000_000_000, DType::U32);
        assert!(
            text.contains("[dtype=i64 shape=(1,) value=5000000000.0]"),
            "{text}"
        );
        let text = recorded(2_000_000_000, DType::I32);
        assert!(
            text.contains("[dtype=i32 shape=(1,) value=2000000000.0]"),
            "{text}"
        );
    }
}
