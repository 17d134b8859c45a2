//! The element types of buffers, and the Rust types that hold elements.

use std::fmt;

use bytemuck::{NoUninit, Pod};

/// The element type of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it all")]
pub enum ElementType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bf16,
    F16,
    F32,
    F64,
}

/// The element types with their names, their sizes, their `PJRT_Buffer_Type` in `pjrt_c_api.h`, and their
/// `PrimitiveType` in `xla/xla_data.proto`.
const TYPES: [(ElementType, &str, usize, i32, u64); 13] = [
    (ElementType::Bool, "bool", 1, 1, 1),
    (ElementType::I8, "i8", 1, 2, 2),
    (ElementType::I16, "i16", 2, 3, 3),
    (ElementType::I32, "i32", 4, 4, 4),
    (ElementType::I64, "i64", 8, 5, 5),
    (ElementType::U8, "u8", 1, 6, 6),
    (ElementType::U16, "u16", 2, 7, 7),
    (ElementType::U32, "u32", 4, 8, 8),
    (ElementType::U64, "u64", 8, 9, 9),
    (ElementType::Bf16, "bf16", 2, 13, 16),
    (ElementType::F16, "f16", 2, 10, 10),
    (ElementType::F32, "f32", 4, 11, 11),
    (ElementType::F64, "f64", 8, 12, 12),
];

impl ElementType {
    const fn row(self) -> (Self, &'static str, usize, i32, u64) {
        TYPES[self as usize]
    }

    /// Returns the size of one element in bytes. A bool has one byte.
    pub const fn bytes(self) -> usize {
        self.row().2
    }

    /// Returns the code of the type in the C interface.
    pub(crate) const fn to_raw(self) -> i32 {
        self.row().3
    }

    /// Returns the type with this code in the C interface.
    pub(crate) fn from_raw(raw: i32) -> Option<Self> {
        TYPES.iter().find(|row| row.3 == raw).map(|row| row.0)
    }

    /// Returns the type with this number in XLA's protocol buffers.
    pub(crate) fn from_primitive_type(number: u64) -> Option<Self> {
        TYPES.iter().find(|row| row.4 == number).map(|row| row.0)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

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
    fn table_is_in_order_of_types() {
        for (index, row) in TYPES.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
            assert_eq!(ElementType::from_raw(row.0.to_raw()), Some(row.0));
        }
    }

    #[test]
    fn sizes_that_overflow_are_none() {
        let huge = ArrayType::new(ElementType::F32, [1 << 40, 1 << 40]);
        assert_eq!(huge.len(), None);
        let wide = ArrayType::new(ElementType::F64, [1 << 62]);
        assert_eq!((wide.len(), wide.bytes()), (Some(1 << 62), None));
        let empty = ArrayType::new(ElementType::F32, [1 << 40, 0, 1 << 40]);
        assert_eq!((empty.len(), empty.bytes()), (Some(0), Some(0)));
        let scalar = ArrayType::new(ElementType::Bf16, []);
        assert_eq!((scalar.len(), scalar.bytes()), (Some(1), Some(2)));
        assert_eq!(
            format!("{empty} {scalar}"),
            "f32[1099511627776,0,1099511627776] bf16[]"
        );
    }
}
