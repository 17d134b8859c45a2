//! Dtypes and shapes of leaves that are arrays.

use std::error::Error;
use std::fmt;

use pytree_base::dtype::ElementType;
use pytree_base::lists::Joined;

/// The error of an array whose elements cannot be read or replaced. The source is that of the library of the array.
pub type LeafError = Box<dyn Error + Send + Sync>;

/// Fills the bytes of new elements.
pub type FillBytes<'f> = dyn FnMut(&mut [u8]) -> Result<(), LeafError> + 'f;

/// A Rust type that can be the element of an array leaf.
pub trait Element: Copy + fmt::Debug + Send + Sync + PartialEq + 'static {
    /// The dtype of the element.
    const TYPE: ElementType;

    /// Returns elements as bytes in the byte order of the host.
    ///
    /// # Errors
    /// If the type does not implement this method.
    fn bytes_of(elements: &[Self]) -> Result<&[u8], LeafError> {
        let _ = elements;
        Err(no_bytes::<Self>())
    }

    /// Returns `count` elements whose bytes `fill` writes, in the byte order of the host.
    ///
    /// # Errors
    /// The error of `fill`, or an error if the type does not implement this method.
    fn filled(count: usize, fill: &mut FillBytes<'_>) -> Result<Vec<Self>, LeafError> {
        let _ = (count, fill);
        Err(no_bytes::<Self>())
    }
}

fn no_bytes<T>() -> LeafError {
    let element = std::any::type_name::<T>();
    format!("the element type `{element}` has no bytes; implement `Element::bytes_of` and `Element::filled`").into()
}

/// The dtype and shape of an array or a number. Displayed as `f32[2,3]`.
///
/// A leaf lends its shape, as `ArrayInfo<&[usize]>`, because each call of a compiled function compares the shapes of all
/// leaves. `ArrayInfo::from` copies it.
#[derive(Clone, Copy, Debug)]
pub struct ArrayInfo<S = Vec<usize>> {
    /// The dtype.
    pub element: ElementType,
    /// The length of each axis. Empty for a number.
    pub shape: S,
}

impl<S: AsRef<[usize]>> PartialEq for ArrayInfo<S> {
    /// Compares the lengths one by one. The empty shape of a number has an invalid address, at which the vector
    /// instructions of `memcmp` are very slow.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.element == other.element && self.shape.as_ref().iter().eq(other.shape.as_ref())
    }
}

impl<S: AsRef<[usize]>> Eq for ArrayInfo<S> {}

/// An axis that a `vmap` removed from an array. Inside of the `vmap`, the array is one example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedAxis {
    /// The position of the axis.
    pub axis: usize,
    /// The length of the axis: the number of examples.
    pub length: usize,
    /// The dtype and shape of the array of all examples, with the axis.
    pub array: ArrayInfo,
}

impl From<ArrayInfo<&[usize]>> for ArrayInfo {
    fn from(info: ArrayInfo<&[usize]>) -> Self {
        Self {
            element: info.element,
            shape: info.shape.to_vec(),
        }
    }
}

impl<S: AsRef<[usize]>> ArrayInfo<S> {
    /// Returns the number of elements, or `usize::MAX` if a `usize` is too small for it. No array is so large.
    pub fn len(&self) -> usize {
        let lengths = self.shape.as_ref().iter();
        lengths.fold(1, |product: usize, &length| product.saturating_mul(length))
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of all elements in bytes, or `usize::MAX` if a `usize` is too small for it.
    pub fn bytes(&self) -> usize {
        self.len().saturating_mul(self.element.bytes())
    }
}

impl<S: AsRef<[usize]>> fmt::Display for ArrayInfo<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.element, Joined(",", self.shape.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_overflow_are_the_maximum() {
        let info = |element, shape| ArrayInfo::<&[usize]> { element, shape };
        let huge = info(ElementType::F32, &[1 << 40, 1 << 40]);
        assert_eq!((huge.len(), huge.bytes()), (usize::MAX, usize::MAX));
        let wide = info(ElementType::F64, &[1 << 62]);
        assert_eq!((wide.len(), wide.bytes()), (1 << 62, usize::MAX));
        let empty = info(ElementType::F32, &[1 << 40, 1 << 40, 0]);
        assert_eq!((empty.len(), empty.bytes()), (0, 0));
        let scalar = info(ElementType::BF16, &[]);
        assert_eq!((scalar.len(), scalar.bytes()), (1, 2));
        assert_eq!(
            format!("{empty} {scalar}"),
            "f32[1099511627776,1099511627776,0] bf16[]"
        );
    }
}
