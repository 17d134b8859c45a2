//! The bits of elements, for kernels that only move elements. Such a kernel is compiled once for each width of
//! elements, and not for each dtype.

use bytemuck::{NoUninit, Zeroable};
use pytree_base::bug::bug;
use pytree_base::for_each_dtype;

use crate::base::data::Data;
use crate::base::dtype::DType;

/// The bits of an element: a bool, or an unsigned integer with the width of the element.
pub trait Bits: NoUninit + Zeroable + Default + Send + Sync {
    /// Returns the bits, extended with zeros.
    fn to_u64(self) -> u64;
    /// Returns the bits of the elements, or `None` if the width of an element differs from the width of `Self`.
    fn slice(data: &Data) -> Option<&[Self]>;
    /// Returns the bits of the elements for writing, or `None` if the width of an element differs from the width of
    /// `Self`.
    fn slice_mut(data: &mut Data) -> Option<&mut [Self]>;
    /// Returns the bits of the elements by value, or `None` if the width of an element differs from the width of
    /// `Self`.
    fn vector(data: Data) -> Option<Vec<Self>>;
    /// Returns the bits as bytes for writing. `Self` must not be `bool`, which not every byte is.
    fn bytes_mut(bits: &mut [Self]) -> &mut [u8];
    /// Returns elements of a dtype from their bits. The dtype must have the width of the bits.
    fn data(bits: Vec<Self>, dtype: DType) -> Data;
}

/// The type that holds the bits of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum BitsType {
    Bool,
    U8,
    U16,
    U32,
    U64,
}

impl BitsType {
    /// Returns the type that holds the bits of a dtype.
    #[inline]
    pub const fn of(dtype: DType) -> Self {
        match dtype.bytes() {
            _ if matches!(dtype, DType::Bool) => Self::Bool,
            1 => Self::U8,
            2 => Self::U16,
            4 => Self::U32,
            _ => Self::U64,
        }
    }
}

/// Runs an expression with `$type` as an alias of the type that holds the bits of a dtype.
#[macro_export]
macro_rules! with_bits {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::__with_alias!($crate::base::bits::BitsType::of($dtype), $type => $body;
            $crate::base::bits::BitsType::Bool => bool,
            $crate::base::bits::BitsType::U8 => u8,
            $crate::base::bits::BitsType::U16 => u16,
            $crate::base::bits::BitsType::U32 => u32,
            $crate::base::bits::BitsType::U64 => u64)
    };
}
pub use with_bits;

impl Bits for bool {
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self.into()
    }
    fn slice(data: &Data) -> Option<&[Self]> {
        match data {
            Data::Bool(elements) => Some(elements),
            _ => None,
        }
    }
    fn slice_mut(data: &mut Data) -> Option<&mut [Self]> {
        match data {
            Data::Bool(elements) => Some(elements),
            _ => None,
        }
    }
    fn vector(data: Data) -> Option<Vec<Self>> {
        match data {
            Data::Bool(elements) => Some(elements),
            _ => None,
        }
    }
    fn bytes_mut(_: &mut [Self]) -> &mut [u8] {
        bug("integers, whose bytes may have any value")
    }
    fn data(bits: Vec<Self>, dtype: DType) -> Data {
        match dtype {
            DType::Bool => Data::Bool(bits),
            _ => wrong_width(dtype),
        }
    }
}

#[cold]
fn wrong_width(dtype: DType) -> ! {
    bug(format_args!("elements as wide as the bits, found {dtype}"))
}

/// Runs an expression with `$elements` as the elements of an array if they have the width of `$bits`. Otherwise, returns `None`.
macro_rules! of_width {
    ($bits:ty, $data:expr, $elements:ident => $same:expr; [bool $bool:ident bool] $([$kind:ident $dtype:ident $type:ty])*) => {
        match $data {
            $(Data::$dtype($elements) if size_of::<$type>() == size_of::<$bits>() => $same,)*
            _ => None,
        }
    };
}

/// Returns elements of the dtype `$dtype` from their bits.
macro_rules! of_bits {
    ($self:ty, $bits:ident, $dtype:expr; [bool $bool:ident bool] $([$kind:ident $name:ident $type:ty])*) => {
        match $dtype {
            $(DType::$name if size_of::<$type>() == size_of::<$self>() => Data::$name(bytemuck::cast_vec($bits)),)*
            _ => wrong_width($dtype),
        }
    };
}

macro_rules! bits {
    ($($bits:ty)*) => {$(
        #[allow(
            trivial_numeric_casts,
            clippy::cast_lossless,
            reason = "u64 is the widest of these types"
        )]
        impl Bits for $bits {
            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }
            fn slice(data: &Data) -> Option<&[Self]> {
                for_each_dtype!([of_width] $bits, data, elements => Some(bytemuck::cast_slice(elements));)
            }
            fn slice_mut(data: &mut Data) -> Option<&mut [Self]> {
                for_each_dtype!([of_width] $bits, data, elements => bytemuck::try_cast_slice_mut(elements).ok();)
            }
            fn vector(data: Data) -> Option<Vec<Self>> {
                for_each_dtype!([of_width] $bits, data, elements => bytemuck::try_cast_vec(elements).ok();)
            }
            fn bytes_mut(bits: &mut [Self]) -> &mut [u8] {
                bytemuck::cast_slice_mut(bits)
            }
            fn data(bits: Vec<Self>, dtype: DType) -> Data {
                for_each_dtype!([of_bits] Self, bits, dtype;)
            }
        }
    )*};
}
bits!(u8 u16 u32 u64);

#[cfg(test)]
mod tests {
    use super::*;

    /// The compiler does not find a dtype that the row of its width lacks.
    #[test]
    fn each_dtype_is_in_the_row_of_its_width() {
        for &dtype in DType::ALL {
            with_bits!(dtype, T => {
                let mut data = T::data(vec![T::default(); 2], dtype);
                assert_eq!(T::slice(&data).map(<[T]>::len), Some(2), "{dtype}");
                assert!(T::slice_mut(&mut data).is_some(), "{dtype}");
                assert!(T::vector(data).is_some(), "{dtype}");
            });
        }
    }
}
