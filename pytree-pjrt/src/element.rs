//! The element types of buffers, and the Rust types that hold elements.

use std::fmt;

use bytemuck::{NoUninit, Pod};
pub use pytree_base::dtype::ElementType;

/// The element type and the dimensions of an array. Displayed as, for instance, `f32[2,3]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    /// The type of the elements.
    pub element: ElementType,
    /// The length of each axis.
    pub dims: Vec<usize>,
}

impl ArrayType {
    /// Creates the type of an array.
    pub fn new(element: ElementType, dims: impl Into<Vec<usize>>) -> Self {
        Self {
            element,
            dims: dims.into(),
        }
    }

    /// Returns the number of elements, or `None` if the number does not fit into a `usize`.
    pub fn len(&self) -> Option<usize> {
        if self.dims.contains(&0) {
            return Some(0);
        }
        let product = |product: usize, &length: &usize| product.checked_mul(length);
        self.dims.iter().try_fold(1, product)
    }

    /// Returns whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// Returns the size of all elements in bytes, or `None` if the size does not fit into a `usize`.
    pub fn bytes(&self) -> Option<usize> {
        self.len()?.checked_mul(self.element.bytes())
    }
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element)?;
        for (index, length) in self.dims.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{length}")?;
        }
        f.write_str("]")
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose slices can be copied to buffers and back.
///
/// `bf16` and `f16` have no such Rust type. Pass their bits as bytes to
/// [`Client::put_bytes`](crate::Client::put_bytes), and read them by [`Buffer::to_bytes`](crate::Buffer::to_bytes).
pub trait Element: NoUninit + sealed::Sealed {
    /// The element type of this Rust type.
    const TYPE: ElementType;

    /// Returns elements whose bytes `read` writes.
    #[doc(hidden)]
    fn read<E>(count: usize, read: impl FnOnce(&mut [u8]) -> Result<(), E>)
    -> Result<Vec<Self>, E>;
}

/// Returns elements of a type that allows all byte values.
fn read_plain<T: Pod, E>(
    count: usize,
    read: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<T>, E> {
    let mut elements = vec![T::zeroed(); count];
    read(bytemuck::cast_slice_mut(&mut elements))?;
    Ok(elements)
}

macro_rules! elements {
    ($($rust:ty => $element:ident),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const TYPE: ElementType = ElementType::$element;
            fn read<E>(count: usize, read: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Vec<Self>, E> {
                read_plain(count, read)
            }
        }
    )*};
}
elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

impl sealed::Sealed for bool {}
impl Element for bool {
    const TYPE: ElementType = ElementType::Bool;

    fn read<E>(
        count: usize,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Vec<Self>, E> {
        let bytes = read_plain::<u8, E>(count, read)?;
        Ok(bytes.into_iter().map(|byte| byte != 0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_overflow_are_none() {
        let huge = ArrayType::new(ElementType::F32, [1 << 40, 1 << 40]);
        assert_eq!(huge.len(), None);
        let wide = ArrayType::new(ElementType::F64, [1 << 62]);
        assert_eq!((wide.len(), wide.bytes()), (Some(1 << 62), None));
        let empty = ArrayType::new(ElementType::F32, [1 << 40, 0, 1 << 40]);
        assert_eq!((empty.len(), empty.bytes()), (Some(0), Some(0)));
        let scalar = ArrayType::new(ElementType::BF16, []);
        assert_eq!((scalar.len(), scalar.bytes()), (Some(1), Some(2)));
        assert_eq!(
            format!("{empty} {scalar}"),
            "f32[1099511627776,0,1099511627776] bf16[]"
        );
    }
}
