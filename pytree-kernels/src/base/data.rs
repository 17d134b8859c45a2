//! The elements of an array, and code that is compiled for their types.

use pytree_base::bug::bug;
use pytree_base::for_each_dtype;

use crate::base::dtype::DType;

/// Converts a number to an `f64`. Large integers are rounded.
macro_rules! to_f64 {
    (bool $element:expr) => {
        f64::from(u8::from($element))
    };
    (half $element:expr) => {
        $element.to_f64()
    };
    ($kind:ident $element:expr) => {
        $element as f64
    };
}

macro_rules! data {
    ($([$kind:ident $dtype:ident $type:ty])*) => {
        /// The elements of an array.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the names are those of the dtypes")]
        pub enum Data {
            $($dtype(Vec<$type>),)*
        }

        impl Data {
            /// Returns the elements converted to `f64`. Large integers are rounded.
            #[allow(clippy::cast_lossless, trivial_numeric_casts, reason = "the types include `f64`")]
            pub fn to_f64(&self) -> Vec<f64> {
                match self {
                    $(Self::$dtype(elements) => elements.iter().map(|&element| to_f64!($kind element)).collect(),)*
                }
            }
        }
    };
}
for_each_dtype!([data]);

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
            other => $crate::base::data::without_type(other),
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

/// Runs an expression with `$type` as an alias of the Rust type of a dtype. The dtype must not be narrow:
/// [`widened`](crate::base::narrow::widened) converts the operands of kernels before.
#[macro_export]
macro_rules! with_wide {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            $crate::base::dtype::DType::Bool => {
                type $type = bool;
                $body
            }
            $crate::base::dtype::DType::I32 => {
                type $type = i32;
                $body
            }
            $crate::base::dtype::DType::I64 => {
                type $type = i64;
                $body
            }
            $crate::base::dtype::DType::U32 => {
                type $type = u32;
                $body
            }
            $crate::base::dtype::DType::F32 => {
                type $type = f32;
                $body
            }
            $crate::base::dtype::DType::F64 => {
                type $type = f64;
                $body
            }
            narrow => $crate::base::data::not_widened(narrow),
        }
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
