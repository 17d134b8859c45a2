//! Numbers: their elements as bytes.

use std::borrow::Cow;

use pytree_base::dtype::ElementType;

use super::array_info::{ArrayInfo, Element, FillBytes, LeafError};
use super::traits::{ArrayLeaf, Leaf, ReadRegion};
use crate::base::leaf_types::for_each_leaf_type;

/// Implements [`Element`] for numbers that are their bytes, where every pattern of bytes is a number.
macro_rules! plain {
    ([bool $bool:ident bool] $([$kind:ident $dtype:ident $number:ty])*) => {$(
        impl Element for $number {
            const TYPE: ElementType = ElementType::$dtype;
            fn bytes_of(elements: &[Self]) -> Result<&[u8], LeafError> {
                Ok(bytemuck::cast_slice(elements))
            }
            fn filled(count: usize, fill: &mut FillBytes<'_>) -> Result<Vec<Self>, LeafError> {
                let mut elements = vec![Self::default(); count];
                fill(bytemuck::cast_slice_mut(&mut elements))?;
                Ok(elements)
            }
        }
    )*};
}
for_each_leaf_type!([plain]);

impl Element for bool {
    const TYPE: ElementType = ElementType::Bool;
    fn bytes_of(elements: &[Self]) -> Result<&[u8], LeafError> {
        Ok(bytemuck::cast_slice(elements))
    }
    fn filled(count: usize, fill: &mut FillBytes<'_>) -> Result<Vec<Self>, LeafError> {
        let mut bytes = vec![0; count];
        fill(&mut bytes)?;
        Ok(bytes.into_iter().map(|byte| byte != 0).collect())
    }
}

impl<T: Element + Leaf> ArrayLeaf for T {
    #[inline]
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: Self::TYPE,
            shape: &[],
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        Self::bytes_of(std::slice::from_ref(self)).map(Cow::Borrowed)
    }
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        let elements = Self::filled(1, &mut |bytes| read(&[], bytes))?;
        Ok(Box::new(elements[0]))
    }
}
