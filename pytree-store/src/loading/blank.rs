//! Descriptions of arrays, from which a checkpoint makes the arrays.

use pytree_core::ArrayInfo;
use pytree_core::leaf::ArrayLeaf;
use safetensors::tensor::TensorInfo;

use crate::format::bytes::dtype_of;

/// Returns a leaf that describes an array, and whose [`refilled`](ArrayLeaf::refilled) returns the array. Returns `None` if the library
/// of the arrays has no such dtype.
pub type Blank<'b> = dyn Fn(&ArrayInfo) -> Option<Box<dyn ArrayLeaf>> + 'b;

/// Returns the blank of a stored array.
pub(super) fn blank_of(info: &TensorInfo, blank: &Blank<'_>) -> Option<Box<dyn ArrayLeaf>> {
    blank(&ArrayInfo {
        element: dtype_of(info.dtype)?,
        shape: info.shape.clone(),
    })
}
