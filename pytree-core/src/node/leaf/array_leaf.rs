//! Leaves that are arrays: their elements as bytes, out of a leaf and into a new one.
//!
//! Everything that stores, sends or compares arrays of any library needs only this trait. Numbers are arrays without axes.

use std::borrow::Cow;
use std::error::Error;
use std::ops::Range;

use ndarray::{Array, Dimension};
use pytree_base::for_each_element_type;

use super::{ArrayInfo, Element, ElementType, Leaf};

/// The error of an array whose elements cannot be read or replaced. The source is that of the library of the array.
pub type LeafError = Box<dyn Error + Send + Sync>;

/// Writes the elements of a region of an array, which has a range for each axis, as bytes in row-major order and in the byte
/// order of the host. A bool is 0 or 1.
pub type ReadRegion<'r> = dyn FnMut(&[Range<usize>], &mut [u8]) -> Result<(), LeafError> + 'r;

/// A leaf that is an array or a number: it has a dtype, a shape, and elements that are known as bytes.
///
/// A type with `#[derive(Leaf)]` that implements this trait is an array for all functions of pytrees. Checkpoints store every
/// such leaf.
///
/// # Examples
/// ```
/// use std::borrow::Cow;
/// use pytree_core::leaf::{ArrayLeaf, LeafError, ReadRegion};
/// use pytree_core::{ArrayInfo, ElementType, Leaf};
///
/// /// An array of another library.
/// #[derive(Leaf, Clone, Debug, PartialEq)]
/// struct Words(Vec<u8>, [usize; 1]);
///
/// impl ArrayLeaf for Words {
///     fn info(&self) -> ArrayInfo<&[usize]> {
///         ArrayInfo { element: ElementType::U8, shape: &self.1 }
///     }
///     fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
///         Ok(Cow::Borrowed(&self.0))
///     }
///     fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
///         let mut words = vec![0; self.0.len()];
///         read(&[0..words.len()], &mut words)?;
///         Ok(Box::new(Self(words, self.1)))
///     }
/// }
///
/// let words = Words(vec![1, 2, 3], [3]);
/// assert_eq!(words.array_info().unwrap().to_string(), "u8[3]");
/// ```
pub trait ArrayLeaf: Leaf {
    /// Returns the dtype and the shape.
    fn info(&self) -> ArrayInfo<&[usize]>;

    /// Returns the elements as bytes, in row-major order and in the byte order of the host. A bool is 0 or 1.
    ///
    /// # Errors
    /// The error of the library of the array, for instance if the elements are not known inside of a transformation.
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError>;

    /// Returns a leaf of the same type, dtype and shape, at the same place, with other elements. Calls `read` once with the
    /// whole region, or, for an array that consists of parts, once for each part.
    ///
    /// # Errors
    /// The error of `read`, or that of the library of the array.
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError>;
}

/// Fills the bytes of new elements.
pub type FillBytes<'f> = dyn FnMut(&mut [u8]) -> Result<(), LeafError> + 'f;

/// Returns the elements of an array as numbers, if its library can read them.
pub(super) fn values(array: &dyn ArrayLeaf) -> Option<Vec<f64>> {
    fn numbers<T: Element>(bytes: &[u8]) -> Option<Vec<f64>> {
        let copy = &mut |elements: &mut [u8]| {
            elements.copy_from_slice(&bytes[..elements.len()]);
            Ok(())
        };
        let elements = T::filled(bytes.len() / size_of::<T>(), copy).ok()?;
        elements
            .iter()
            .map(|element| super::number(element))
            .collect()
    }
    let (element, bytes) = (array.info().element, array.bytes().ok()?);
    macro_rules! of_element {
        ($([$kind:ident $dtype:ident $number:ty])*) => {
            match element {
                $(ElementType::$dtype => numbers::<$number>(&bytes),)*
                _ => None,
            }
        };
    }
    for_each_element_type!([of_element])
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
for_each_element_type!([plain]);

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
