//! Rust numbers and bools as elements of tensors.
//!
//! **Invariant:** an integer is never rounded on its way into an integer dtype. It is stored exactly, or refused.

use std::fmt;

use pytree_base::for_each_element_type;
use pytree_kernels::base::dtype::DType;

use crate::tensor::handle::Tensor;

/// A Rust number or bool, for instance the value of [`Tensor::full`]. Every primitive type of at most 64 bits converts
/// to it.
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor};
/// assert_eq!(Tensor::full(DType::Bool, [2], true), Tensor::from([true, true]));
/// assert_eq!(Tensor::full(DType::I64, [], i64::MAX), Tensor::from(i64::MAX));
/// assert_eq!(Tensor::full(DType::F32, [], 3), Tensor::from(3.0_f32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar(Value);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Integer(i128),
    Float(f64),
}

/// Returns the value of a number.
macro_rules! value {
    (bool $number:expr) => {
        Value::Integer($number.into())
    };
    (integer $number:expr) => {
        Value::Integer($number.into())
    };
    ($float:ident $number:expr) => {
        Value::Float($number.into())
    };
}

macro_rules! scalars {
    ($([$kind:ident $dtype:ident $number:ty])*) => {$(
        impl From<$number> for Scalar {
            fn from(number: $number) -> Self {
                Self(value!($kind number))
            }
        }
    )*};
}
for_each_element_type!([scalars]);

pytree_base::conversions! { Scalar:
    [] usize, |number| Self::from(number as u64);
    [] isize, |number| Self::from(number as i64);
}

impl Scalar {
    /// Returns the value as an f64, or `None` if an f64 does not hold it exactly.
    pub(crate) fn exact(self) -> Option<f64> {
        match self.0 {
            Value::Integer(number) => {
                let float = number as f64;
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "i128 holds every 64-bit integer"
                )]
                (float as i128 == number).then_some(float)
            }
            Value::Float(number) => Some(number),
        }
    }

    /// Returns a tensor without axes. A float is converted to an integer dtype like Rust's `as`. Returns `None` if this
    /// is an integer that an integer `dtype` cannot hold.
    pub(crate) fn tensor(self, dtype: DType) -> Option<Tensor> {
        match (self.0, dtype.integer_range()) {
            (Value::Integer(number), Some((least, greatest))) => {
                let number = i64::try_from(number).ok()?;
                let fits = (least..=greatest).contains(&number);
                fits.then(|| match dtype {
                    DType::I64 => Tensor::scalar(number),
                    _ => Tensor::constant(dtype, number as f64),
                })
            }
            (Value::Integer(number), None) => Some(Tensor::constant(dtype, number as f64)),
            (Value::Float(number), _) => Some(Tensor::constant(dtype, number)),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Integer(number) => number.fmt(f),
            Value::Float(number) => write!(f, "{number:?}"),
        }
    }
}
