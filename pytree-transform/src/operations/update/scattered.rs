//! Updates at the indices in a tensor, by scatters along an axis.

use std::panic::Location;

use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::Binary;
use pytree_kernels::loops::gather::ScatterBy;

use crate::base::error::TensorError;
use crate::operations::axes::axis_of;
use crate::primitives::elementwise::binary;
use crate::primitives::gather::{scatter_add, scatter_by};
use crate::tensor::Tensor;
use crate::tensor::trace::{at_line_by_default, overwriting};

/// Indices along an axis. Negative indices count from the end, and updates at indices out of range are dropped.
pub(super) struct Scattered {
    axis: usize,
    indices: Tensor,
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
        Ok(Self {
            axis,
            indices: indices.clone(),
        })
    }

    /// Returns the shape of the part of `tensor` that the indices select.
    pub(super) fn shape(&self, tensor: &Tensor) -> Vec<usize> {
        let (before, after) = tensor.shape().split_at(self.axis);
        [before, self.indices.shape(), &after[1..]].concat()
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
        let by = |by| scatter_by(by, tensor, &self.indices, updates, axis);
        at_line_by_default(Location::caller(), || match update {
            Update::Set => by(ScatterBy::Set),
            Update::Add => {
                let added = scatter_add(updates, &self.indices, axis, length)?;
                combined(Binary::Add, tensor, added)
            }
            Update::Multiply => by(ScatterBy::Multiply),
            Update::Min => by(ScatterBy::Min),
            Update::Max => by(ScatterBy::Max),
        })
    }
}

/// Applies an operation to a tensor and to another one, whose memory the result may take.
#[track_caller]
pub(super) fn combined(of: Binary, tensor: &Tensor, other: Tensor) -> Result<Tensor, TensorError> {
    overwriting(&of, [tensor.clone(), other]).or_else(|[x, other]| binary(of, &x, &other))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    Set,
    Add,
    Multiply,
    Min,
    Max,
}
