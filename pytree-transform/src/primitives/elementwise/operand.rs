//! The numbers and tensors that operators accept as operands.

use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::Binary;

use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::scalar::Scalar;

/// An operand on the right of an operator: a tensor or a number. A number is converted to the tensor's dtype, like a
/// weakly typed Python scalar in JAX.
///
/// A float without a fractional part can be combined with an integer tensor. An integer tensor cannot be divided by a
/// float, because the quotient would be rounded.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be combined with a tensor",
    label = "expected a tensor, a reference to one, or a number",
    note = "use a number of type `f32`, `f64`, `i32`, `i64`, `u32` or `usize`; convert numbers of other types first, for instance with `f64::from(number)`"
)]
pub trait Operand {
    /// Returns this operand as a tensor that can be combined with the tensor `other`. A number takes the dtype of
    /// `other`.
    ///
    /// # Errors
    /// Returns [`TensorError::Number`] if the dtype of `other` cannot hold the number.
    fn beside(&self, other: &Tensor) -> Result<Tensor, TensorError>;

    /// Returns the operand as an `f64` if it is a Rust float, or `None` if it is an integer or a tensor.
    #[doc(hidden)]
    fn as_float(&self) -> Option<f64> {
        None
    }

    /// Returns the dtype of the operand if it is a Rust number, or `None` if it is a tensor.
    #[doc(hidden)]
    fn number_dtype(&self) -> Option<DType> {
        None
    }
}

/// Returns two operands as tensors. A number has the dtype of the other operand; of two numbers, of the first float. `beside_tensor` is
/// a third operand, of any dtype.
pub(crate) fn beside_each_other(
    left: &impl Operand,
    right: &impl Operand,
    beside_tensor: &Tensor,
) -> Result<(Tensor, Tensor), TensorError> {
    let other = match (left.number_dtype(), right.number_dtype()) {
        (None, _) => left.beside(beside_tensor)?,
        (Some(_), None) => right.beside(beside_tensor)?,
        (Some(integer), Some(float)) if float.is_float() && !integer.is_float() => {
            Tensor::constant(float, 0.0)
        }
        (Some(dtype), Some(_)) => Tensor::constant(dtype, 0.0),
    };
    Ok((left.beside(&other)?, right.beside(&other)?))
}

/// Returns an error if a float would divide an integer tensor. JAX returns a float tensor in this case. A rounded
/// integer quotient would have a different value.
pub(crate) fn check_quotient(number: &impl Operand, tensor: &Tensor) -> Result<(), TensorError> {
    match number.as_float() {
        Some(number) if !tensor.dtype().is_float() => {
            Err(number_error(format!("{number:?}"), tensor))
        }
        _ => Ok(()),
    }
}

/// Converts `number` to a tensor that `operation` can combine with `tensor`.
pub(super) fn beside(
    operation: Binary,
    number: &impl Operand,
    tensor: &Tensor,
) -> Result<Tensor, TensorError> {
    if operation == Binary::Div {
        check_quotient(number, tensor)?;
    }
    number.beside(tensor)
}

impl Operand for Tensor {
    fn beside(&self, _: &Tensor) -> Result<Tensor, TensorError> {
        Ok(self.clone())
    }
}

impl Operand for &Tensor {
    fn beside(&self, _: &Tensor) -> Result<Tensor, TensorError> {
        Ok((*self).clone())
    }
}

/// Creates the error for a number that the dtype of `tensor` cannot hold.
fn number_error(number: impl ToString, tensor: &Tensor) -> TensorError {
    TensorError::Number {
        number: number.to_string(),
        found: tensor.info().clone(),
    }
}

macro_rules! floats {
    ($($number:ty: $dtype:ident),*) => {$(
        impl Operand for $number {
            fn beside(&self, other: &Tensor) -> Result<Tensor, TensorError> {
                let number = f64::from(*self);
                if !other.dtype().is_float() {
                    // An integer dtype accepts any whole number in its range, even if the number is written as a float.
                    #[allow(clippy::cast_possible_truncation, reason = "the next line checks it")]
                    let whole = number as i64;
                    #[allow(clippy::float_cmp, reason = "only whole numbers are equal to their whole part")]
                    let same = whole as f64 == number && number.abs() < 9e15;
                    return if same { whole.beside(other) } else { Err(number_error(self, other)) };
                }
                Ok(Tensor::constant(other.dtype(), number))
            }
            fn as_float(&self) -> Option<f64> {
                Some((*self).into())
            }
            fn number_dtype(&self) -> Option<DType> {
                Some(DType::$dtype)
            }
        }
    )*};
}

macro_rules! integers {
    ($($number:ty: $dtype:ident),*) => {$(
        impl Operand for $number {
            fn beside(&self, other: &Tensor) -> Result<Tensor, TensorError> {
                let number = Scalar::from(*self);
                let element = match other.dtype() {
                    DType::Bool => None,
                    dtype => number.tensor(dtype),
                };
                element.ok_or_else(|| number_error(number, other))
            }
            fn number_dtype(&self) -> Option<DType> {
                Some(DType::$dtype)
            }
        }
    )*};
}

floats!(f32: F32, f64: F64);

integers!(i32: I32, i64: I64, u32: U32, usize: I64);
