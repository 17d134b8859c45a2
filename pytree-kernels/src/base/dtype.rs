//! The dtypes of tensors, and the abstract array, which is a dtype with a shape.

use std::fmt;

use pytree_base::bug::bug;
use pytree_base::dtype::{ElementType, NumberKind};
use pytree_base::for_each_dtype;
use pytree_base::lists::Joined;

use crate::base::data::Data;
use crate::base::shape::Shape;

macro_rules! dtype {
    ($(#[$doc:meta])* $([$kind:ident $dtype:ident $type:ty])*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DType {
            $(#[doc = concat!("The dtype of Rust's `", stringify!($type), "`.")] $dtype,)*
        }

        impl DType {
            /// All dtypes, in the order of the variants.
            pub const ALL: &'static [Self] = &[$(Self::$dtype,)*];

            /// Returns the [`ElementType`] that corresponds to this dtype.
            #[inline]
            pub const fn element(self) -> ElementType {
                match self {
                    $(Self::$dtype => ElementType::$dtype,)*
                }
            }

            /// Returns the dtype of tensors that corresponds to an [`ElementType`], or `None` if tensors have no such dtype.
            #[inline]
            pub const fn from_element(element: ElementType) -> Option<Self> {
                Some(match element {
                    $(ElementType::$dtype => Self::$dtype,)*
                    _ => return None,
                })
            }
        }
    };
}
for_each_dtype! { [dtype]
    /// The element type (dtype) of a tensor.
    ///
    /// **Half-precision floats** are [`BF16`](Self::BF16) and [`F16`](Self::F16). Each equation computes in f32, and rounds
    /// its result to the nearest number of the dtype, ties to even. Sums, products of matrices, convolutions and cumulative
    /// reductions accumulate in f32 and round once at the end. On processors with instructions for them (AMX, `AVX512_BF16`), products of bf16
    /// matrices treat subnormal factors and sums as 0. An f64 or an integer is first converted to f32, as in XLA.
    ///
    /// **Integers** wrap around in arithmetic, as in JAX. The sums and products of many integers of 8 and 16 bits have 32
    /// bits: `Tensor::sum`, `Tensor::prod`, `Tensor::cumsum` and their variants return i32 for i8 and i16, and u32 for u8 and
    /// u16. These are the dtypes of JAX without x64. NumPy always returns 64 bits: convert to i64 first if 32 bits are not
    /// enough. Products of matrices, convolutions and sums of segments keep the dtype, as in JAX. A conversion from a float
    /// saturates, and NaN becomes 0.
    ///
    /// In each dtype, a computation returns the same bits with and without `jit`.
}

impl DType {
    /// Returns the size of one element in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.element().bytes()
    }

    /// Returns whether this is a float type. Only float tensors have gradients.
    #[inline]
    pub const fn is_float(self) -> bool {
        self.element().is_float()
    }

    /// Returns whether this is an integer type. `bool` is not an integer type.
    #[inline]
    pub const fn is_integer(self) -> bool {
        self.element().is_integer()
    }

    /// Returns the kind of numbers that the dtype holds.
    #[inline]
    pub const fn kind(self) -> NumberKind {
        self.element().kind()
    }

    /// Returns the dtype of this size whose numbers have the kind `kind`, or `None` if there is not exactly one.
    pub fn with_kind(self, kind: NumberKind) -> Option<Self> {
        let is_found = |dtype: &&Self| dtype.kind() == kind && dtype.bytes() == self.bytes();
        let mut found = Self::ALL.iter().filter(is_found);
        found.next().copied().filter(|_| found.next().is_none())
    }

    /// Returns the least and the greatest number of an integer type, or `None` for other types.
    pub const fn integer_range(self) -> Option<(i64, i64)> {
        match self.element().integer_range() {
            // No tensor has elements of u64.
            Some((least, greatest)) => Some((least, greatest.cast_signed())),
            None => None,
        }
    }
}

#[cfg(feature = "serde")]
pytree_base::serde_text!(DType, "the name of a dtype", |text: &str| {
    pytree_base::serde_text::named(text, DType::ALL)
});

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.element().fmt(f)
    }
}

/// A Rust type that can be the element of an array.
pub trait ArrayElement: Copy + fmt::Debug + Default + PartialOrd + Send + Sync + 'static {
    /// Whether loops over such elements are compiled for the wide instruction sets. Loops over other elements are rare, or
    /// as fast as memory is read without wide instructions.
    const HAS_WIDE_LOOPS: bool;

    /// Returns the dtype of this Rust type.
    fn dtype() -> DType;

    /// Converts a number like Rust's `as`. For bool, returns whether the number is nonzero.
    fn from_number(value: f64) -> Self;

    /// Converts the position of an element to a number of this type.
    fn from_position(position: usize) -> Self;

    /// Returns the elements of `data`, or `None` if they have another type.
    fn slice(data: &Data) -> Option<&[Self]>;

    /// Returns the elements of `data` for writing, or `None` if they have another type.
    fn slice_mut(data: &mut Data) -> Option<&mut [Self]>;

    /// Returns the elements of `data` by value, or `None` if they have another type.
    fn vector(data: Data) -> Option<Vec<Self>>;

    /// Wraps elements in the variant of `Data` for this type.
    fn data(elements: Vec<Self>) -> Data;
}

/// Converts a number to a type like Rust's `as`.
macro_rules! number_as {
    (bool, $number:expr) => {
        $number != Default::default()
    };
    (half, $number:expr) => {
        Self::from_f32($number as f32)
    };
    ($kind:ident, $number:expr) => {
        $number as Self
    };
}

macro_rules! elements {
    ($([$kind:ident $dtype:ident $type:ty])*) => {$(
        #[allow(
            clippy::float_cmp,
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            trivial_numeric_casts,
            reason = "a number written by the user takes the tensor's type"
        )]
        impl ArrayElement for $type {
            const HAS_WIDE_LOOPS: bool =
                matches!(DType::$dtype, DType::I32 | DType::I64 | DType::F32 | DType::F64);
            #[inline]
            fn dtype() -> DType {
                DType::$dtype
            }
            fn from_number(value: f64) -> Self {
                number_as!($kind, value)
            }
            fn from_position(position: usize) -> Self {
                number_as!($kind, position)
            }
            fn slice(data: &Data) -> Option<&[Self]> {
                match data {
                    Data::$dtype(elements) => Some(elements),
                    _ => None,
                }
            }
            fn slice_mut(data: &mut Data) -> Option<&mut [Self]> {
                match data {
                    Data::$dtype(elements) => Some(elements),
                    _ => None,
                }
            }
            fn vector(data: Data) -> Option<Vec<Self>> {
                match data {
                    Data::$dtype(elements) => Some(elements),
                    _ => None,
                }
            }
            fn data(elements: Vec<Self>) -> Data {
                Data::$dtype(elements)
            }
        }
    )*};
}
for_each_dtype!([elements]);

/// The dtype and shape of a tensor. The display of an `AbstractArray` is, for instance, `f32[2,3]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AbstractArray {
    /// The dtype of the elements.
    pub dtype: DType,
    /// The length of each axis.
    pub shape: Shape,
}

impl AbstractArray {
    /// Creates an abstract array from a dtype and a shape.
    #[inline]
    pub fn new(dtype: DType, shape: impl AsRef<[usize]>) -> Self {
        Self {
            dtype,
            shape: Shape::from(shape.as_ref()),
        }
    }

    /// Returns the number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements. Returns `usize::MAX` if the number does not fit into a `usize`. No tensor is so
    /// large.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape
            .iter()
            .fold(1, |product: usize, &length| product.saturating_mul(length))
    }

    /// Returns the size of all elements in bytes. A size that does not fit `usize` is the greatest `usize`.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.len().saturating_mul(self.dtype.bytes())
    }

    /// Returns whether the array has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for AbstractArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.dtype, Joined(",", &self.shape))
    }
}

/// Runs an expression with `$type` as an alias of the Rust type of a dtype. The expression is compiled for each dtype,
/// so use this macro only for a few instructions. Use [`with_wide`] for computations, and
/// [`with_bits`](crate::base::bits::with_bits) to move elements.
#[macro_export]
macro_rules! with_type {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::for_each_dtype!([$crate::__match_type] $dtype, $type => $body;)
    };
}
pub use with_type;

#[macro_export]
#[doc(hidden)]
macro_rules! __match_type {
    ($dtype:expr, $alias:ident => $body:expr; $([$kind:ident $variant:ident $type:ty])*) => {
        match $dtype {
            $($crate::base::dtype::DType::$variant => {
                type $alias = $type;
                $body
            })*
            #[allow(unreachable_patterns, reason = "other crates need this arm")]
            other => $crate::base::dtype::without_type(other),
        }
    };
}

/// Reports a dtype that [`with_type`] does not list.
///
/// # Panics
/// Always.
#[cold]
#[track_caller]
pub fn without_type(dtype: DType) -> ! {
    bug(format_args!("a dtype with a Rust type, found {dtype}"))
}

/// Runs an expression with an alias of the type beside the first pattern that matches. A last arm without a type, as in a
/// `match`, may follow after a semicolon.
#[macro_export]
#[doc(hidden)]
macro_rules! __with_alias {
    ($value:expr, $alias:ident => $body:expr; $($pattern:pat => $type:ty),+ $(; $rest:ident => $otherwise:expr)?) => {
        match $value {
            $($pattern => {
                type $alias = $type;
                $body
            })+
            $($rest => $otherwise,)?
        }
    };
}

/// Runs an expression with `$type` as an alias of the Rust type of a dtype. The dtype must not be narrow:
/// [`widened`](crate::base::narrow::widened) converts the operands of kernels before.
#[macro_export]
macro_rules! with_wide {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::__with_alias!($dtype, $type => $body;
            $crate::base::dtype::DType::Bool => bool,
            $crate::base::dtype::DType::I32 => i32,
            $crate::base::dtype::DType::I64 => i64,
            $crate::base::dtype::DType::U32 => u32,
            $crate::base::dtype::DType::F32 => f32,
            $crate::base::dtype::DType::F64 => f64;
            narrow => $crate::base::dtype::not_widened(narrow))
    };
}
pub use with_wide;

/// Reports a narrow dtype, for which no kernel is compiled.
///
/// # Panics
/// Always.
#[cold]
#[track_caller]
pub fn not_widened(dtype: DType) -> ! {
    bug(format_args!("a wide dtype, found {dtype}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_of_tensors_are_in_the_table() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_element(dtype.element()), Some(dtype));
            assert_eq!(dtype.to_string(), format!("{dtype:?}").to_lowercase());
        }
        assert_eq!(DType::from_element(ElementType::U64), None);
    }

    #[test]
    fn dtype_of_another_kind_has_the_same_size() {
        assert_eq!(DType::I16.with_kind(NumberKind::Unsigned), Some(DType::U16));
        assert_eq!(DType::U8.with_kind(NumberKind::Signed), Some(DType::I8));
        assert_eq!(DType::I32.with_kind(NumberKind::Float), Some(DType::F32));
        // Tensors have no u64 and two floats of 16 bits.
        assert_eq!(DType::I64.with_kind(NumberKind::Unsigned), None);
        assert_eq!(DType::I16.with_kind(NumberKind::Float), None);
    }
}
