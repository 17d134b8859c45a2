//! Descriptions of arrays, from which a checkpoint makes the arrays.

use std::borrow::Cow;

use pytree_core::leaf::{ArrayLeaf, LeafError, ReadRegion};
use pytree_core::{ArrayInfo, Leaf};
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

/// Returns the blank of an array of ndarray.
#[allow(clippy::unnecessary_wraps, reason = "other libraries lack dtypes")]
pub fn ndarrays(info: &ArrayInfo) -> Option<Box<dyn ArrayLeaf>> {
    Some(Box::new(Described(info.clone())))
}

/// The dtype and the shape of an array of ndarray.
#[derive(Leaf, Clone, Debug)]
struct Described(ArrayInfo);

impl ArrayLeaf for Described {
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: self.0.element,
            shape: &self.0.shape,
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        Err("a description of an array has no elements".into())
    }
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        self.0.ndarray(read)
    }
}
