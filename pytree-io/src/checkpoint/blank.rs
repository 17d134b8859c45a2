//! Descriptions of tensors, from which a checkpoint makes the tensors.

use std::borrow::Cow;

use pytree_core::leaf::{ArrayLeaf, LeafError, ReadRegion};
use pytree_core::{ArrayInfo, Leaf};
use pytree_transform::extend::TensorBuffer;
use pytree_transform::{AbstractArray, DType};

/// The dtype and the shape of a tensor on the host.
#[derive(Leaf, Clone, Debug)]
pub(super) struct Blank(pub(super) AbstractArray);

impl ArrayLeaf for Blank {
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: self.0.dtype.element(),
            shape: &self.0.shape,
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        Err("a description of a tensor has no elements".into())
    }
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        let mut buffer = TensorBuffer::new(&self.0)?;
        let whole: Vec<_> = self.0.shape.iter().map(|&length| 0..length).collect();
        read(&whole, buffer.bytes_mut())?;
        Ok(Box::new(buffer.into_tensor()))
    }
}

/// Returns the description of a tensor, or `None` if tensors lack the dtype.
pub(super) fn blank(info: &ArrayInfo) -> Option<Box<dyn ArrayLeaf>> {
    let dtype = DType::from_element(info.element)?;
    Some(Box::new(Blank(AbstractArray::new(dtype, &info.shape))))
}
