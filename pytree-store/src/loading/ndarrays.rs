//! Arrays of ndarray, for files that are read without a template.

use std::borrow::Cow;

use pytree_core::leaf::{ArrayLeaf, LeafError, ReadRegion};
use pytree_core::{ArrayInfo, Leaf};

/// Returns the blank of an array of ndarray. Needs the feature `ndarray`.
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
