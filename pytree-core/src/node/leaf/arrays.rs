//! Numbers and arrays of ndarray: their elements as bytes, and views of dynamic dimension.

use std::borrow::Cow;
use std::ops::Range;

use ndarray::{Array, ArrayD, ArrayViewD, ArrayViewMutD, Dimension, IxDyn};
use pytree_base::dtype::ElementType;

use super::array_info::{ArrayInfo, Element, FillBytes, LeafError};
use super::traits::{ArrayLeaf, Leaf, ReadRegion};
use crate::base::leaf_types::for_each_leaf_type;

/// Runs a block for each dimension that an array may have, with the type `$dimension`.
macro_rules! each_dimension {
    ($dimension:ident => $block:block) => {
        each_dimension!($dimension => $block Ix2 Ix1 IxDyn Ix0 Ix3 Ix4 Ix5 Ix6);
    };
    ($dimension:ident => $block:block $($name:ident)*) => {$({
        type $dimension = ndarray::$name;
        $block
    })*};
}

impl dyn Leaf {
    /// Returns the leaf as an array view with elements of type `T`, if the leaf is a number of this type, or an owned
    /// `ndarray` array of this element type. The array may have a fixed rank of at most six, or a dynamic rank.
    pub fn array_view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        if let Some(inner) = self.inner() {
            return inner.array_view();
        }
        each_dimension!(D => {
            if let Some(array) = self.downcast_ref::<Array<T, D>>() {
                return Some(array.view().into_dyn());
            }
        });
        self.downcast_ref::<T>()
            .map(|number| ndarray::aview0(number).into_dyn())
    }

    /// Returns the leaf as a mutable array; see [`array_view`](#method.array_view).
    pub fn array_view_mut<T: Element>(&mut self) -> Option<ArrayViewMutD<'_, T>> {
        if self.inner().is_some() {
            return self.inner_mut()?.array_view_mut();
        }
        each_dimension!(D => {
            if self.as_any().is::<Array<T, D>>() {
                let array = self.downcast_mut::<Array<T, D>>()?;
                return Some(array.view_mut().into_dyn());
            }
        });
        let number = self.downcast_mut::<T>()?;
        ArrayViewMutD::from_shape(IxDyn(&[]), std::slice::from_mut(number)).ok()
    }

    /// Replaces the array or number of this leaf; see [`array_view`](#method.array_view). Returns false, and changes
    /// nothing, if the leaf has another number of axes or another element type.
    pub(crate) fn put_array<T: Element>(&mut self, array: ArrayD<T>) -> bool {
        if self.inner().is_some() {
            return self.inner_mut().is_some_and(|inner| inner.put_array(array));
        }
        each_dimension!(D => {
            if let Some(place) = self.downcast_mut::<Array<T, D>>() {
                let array = array.into_dimensionality();
                return array.map(|array| *place = array).is_ok();
            }
        });
        let number = array.into_dimensionality::<ndarray::Ix0>();
        match (self.downcast_mut::<T>(), number) {
            (Some(place), Ok(number)) => {
                *place = number.into_scalar();
                true
            }
            _ => false,
        }
    }
}

impl ArrayInfo {
    /// Returns an array of ndarray with this dtype and shape. `read` writes its elements.
    ///
    /// # Errors
    /// The error of `read`, or an error if ndarray has no elements of the dtype: those of half-precision floats need the feature `half`.
    pub fn ndarray(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        macro_rules! array {
            ($([$kind:ident $dtype:ident $element:ty])*) => {
                match self.element {
                    $(ElementType::$dtype => self.ndarray_of::<$element>(read),)*
                    #[allow(unreachable_patterns, reason = "with the feature `half`, there is a row for each dtype")]
                    other => Err(format!("ndarray has no elements of the dtype {other}; enable the feature `half` of pytree-core").into()),
                }
            };
        }
        for_each_leaf_type!([array])
    }

    fn ndarray_of<T: Element>(
        &self,
        read: &mut ReadRegion<'_>,
    ) -> Result<Box<dyn Leaf>, LeafError> {
        let whole: Vec<_> = self.shape.iter().map(|&length| 0..length).collect();
        let elements = T::filled(self.len(), &mut |bytes| read(&whole, bytes))?;
        Ok(Box::new(ArrayD::from_shape_vec(&self.shape[..], elements)?))
    }
}

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

impl<T: Element, D: Dimension + Send + Sync + 'static> ArrayLeaf for Array<T, D> {
    #[inline]
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: T::TYPE,
            shape: self.shape(),
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        if let Some(elements) = self.as_slice() {
            return Ok(Cow::Borrowed(T::bytes_of(elements)?));
        }
        let mut bytes = Vec::new();
        for element in self {
            bytes.extend_from_slice(T::bytes_of(std::slice::from_ref(element))?);
        }
        Ok(Cow::Owned(bytes))
    }
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        let whole: Vec<Range<usize>> = self.shape().iter().map(|&length| 0..length).collect();
        let elements = T::filled(self.len(), &mut |bytes| read(&whole, bytes))?;
        Ok(Box::new(Self::from_shape_vec(self.raw_dim(), elements)?))
    }
}
