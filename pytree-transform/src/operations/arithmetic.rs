//! Operators and functions element by element.

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

use crate::dtype::DType;
use crate::error::{TensorError, or_panic};
use crate::primitives::convert;
use crate::primitives::elementwise::{self, Binary, Comparison, Unary};
use crate::primitives::select;
use crate::tensor::Tensor;

/// What an operator accepts on its right: a tensor, or a number that takes the tensor's element type.
pub trait Operand {
    /// The operand as a tensor beside `other`.
    ///
    /// # Errors
    /// [`TensorError::Number`] if `other`'s element type can't hold the number.
    fn beside(&self, other: &Tensor) -> Result<Tensor, TensorError>;
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

/// The error that a tensor's element type can't hold a number.
fn number_error(number: impl ToString, tensor: &Tensor) -> TensorError {
    TensorError::Number {
        number: number.to_string(),
        found: tensor.info().clone(),
    }
}

macro_rules! floats {
    ($($number:ty),*) => {$(
        impl Operand for $number {
            fn beside(&self, other: &Tensor) -> Result<Tensor, TensorError> {
                let number = f64::from(*self);
                if !other.dtype().is_float() {
                    // A whole number in range may stand beside integers, whatever it is written as.
                    #[allow(clippy::cast_possible_truncation, reason = "the next line checks it")]
                    let whole = number as i64;
                    #[allow(clippy::float_cmp, reason = "only whole numbers are equal to their whole part")]
                    let same = whole as f64 == number && number.abs() < 9e15;
                    return if same { whole.beside(other) } else { Err(number_error(self, other)) };
                }
                Ok(Tensor::constant(other.dtype(), number))
            }
        }
    )*};
}

macro_rules! integers {
    ($($number:ty),*) => {$(
        impl Operand for $number {
            fn beside(&self, other: &Tensor) -> Result<Tensor, TensorError> {
                let number = *self;
                let out_of_range = || number_error(number, other);
                Ok(match other.dtype() {
                    DType::I32 => Tensor::scalar(i32::try_from(number).map_err(|_| out_of_range())?),
                    DType::I64 => Tensor::scalar(i64::from(number)),
                    DType::U32 => Tensor::scalar(u32::try_from(number).map_err(|_| out_of_range())?),
                    DType::Bool => return Err(out_of_range()),
                    #[allow(clippy::cast_lossless, clippy::cast_precision_loss, reason = "a float takes the nearest number")]
                    float => Tensor::constant(float, number as f64),
                })
            }
        }
    )*};
}

macro_rules! operators {
    (left $number:ty) => {
        operators!(left $number, Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);
    };
    (left $number:ty, $($trait:ident $method:ident $operation:ident),*) => {$(
        impl $trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: Tensor) -> Tensor {
                or_panic(elementwise::binary(Binary::$operation, &or_panic(self.beside(&right)), &right))
            }
        }
        impl $trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: &Tensor) -> Tensor {
                or_panic(elementwise::binary(Binary::$operation, &or_panic(self.beside(right)), right))
            }
        }
    )*};
    ($($trait:ident $method:ident $operation:ident),*) => {$(
        impl<R: Operand> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                or_panic(elementwise::binary(Binary::$operation, &self, &or_panic(right.beside(&self))))
            }
        }
        impl<R: Operand> $trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                or_panic(elementwise::binary(Binary::$operation, self, &or_panic(right.beside(self))))
            }
        }
    )*};
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, BitAnd bitand And, BitOr bitor Or);
floats!(f32, f64);
integers!(i32, i64, u32);
// On the left only one float and one integer type: a literal there takes them, and `(1.0 - &x).exp()`
// needs no annotation.
operators!(left f64);
operators!(left i32);

impl Neg for Tensor {
    type Output = Self;
    #[track_caller]
    fn neg(self) -> Self {
        or_panic(elementwise::unary(Unary::Neg, &self))
    }
}
impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        or_panic(elementwise::unary(Unary::Neg, self))
    }
}
impl Not for Tensor {
    type Output = Self;
    #[track_caller]
    fn not(self) -> Self {
        or_panic(elementwise::unary(Unary::Not, &self))
    }
}
impl Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        or_panic(elementwise::unary(Unary::Not, self))
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident = $operation:expr;)*) => {
        /// Functions element by element.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// If the element type has no such function.
            #[must_use]
            #[track_caller]
            pub fn $name(&self) -> Self {
                or_panic(elementwise::unary($operation, self))
            }
        )*}
    };
}

unary_methods! {
    /// The absolute values.
    abs = Unary::Abs;
    /// The signs: -1, 0 or 1; NaN stays NaN.
    sign = Unary::Sign;
    /// eˣ.
    exp = Unary::Exp;
    /// The natural logarithm.
    log = Unary::Log;
    /// The square root.
    sqrt = Unary::Sqrt;
    /// The sine.
    sin = Unary::Sin;
    /// The cosine.
    cos = Unary::Cos;
    /// The hyperbolic tangent.
    tanh = Unary::Tanh;
    /// The logistic function 1 / (1 + e⁻ˣ).
    sigmoid = Unary::Logistic;
    /// The inverse of the error function, on (-1, 1).
    erf_inv = Unary::ErfInv;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident $try_name:ident = $function:path, $operation:expr;)*) => {
        /// Functions of two tensors, after broadcasting. The other may be a number.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// If the element types differ or the shapes do not broadcast.
            #[must_use]
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Self {
                or_panic(self.$try_name(other))
            }

            $(#[$doc])*
            ///
            /// # Errors
            /// If the element types differ or the shapes do not broadcast.
            #[track_caller]
            pub fn $try_name(&self, other: impl Operand) -> Result<Self, TensorError> {
                $function($operation, self, &other.beside(self)?)
            }
        )*}
    };
}

binary_methods! {
    /// The sum; as `+`.
    add_to try_add = elementwise::binary, Binary::Add;
    /// The difference; as `-`.
    sub_from try_sub = elementwise::binary, Binary::Sub;
    /// The product element by element; as `*`.
    multiply try_mul = elementwise::binary, Binary::Mul;
    /// The quotient; as `/`.
    divide try_div = elementwise::binary, Binary::Div;
    /// The larger of each pair; NaN if either is.
    maximum try_maximum = elementwise::binary, Binary::Max;
    /// The smaller of each pair; NaN if either is.
    minimum try_minimum = elementwise::binary, Binary::Min;
    /// Whether each pair is equal.
    equal try_equal = elementwise::compare, Comparison::Eq;
    /// Whether each pair is not equal.
    not_equal try_not_equal = elementwise::compare, Comparison::Ne;
    /// Whether the first of each pair is less.
    less try_less = elementwise::compare, Comparison::Lt;
    /// Whether the first of each pair is less or equal.
    less_equal try_less_equal = elementwise::compare, Comparison::Le;
    /// Whether the first of each pair is greater.
    greater try_greater = elementwise::compare, Comparison::Gt;
    /// Whether the first of each pair is greater or equal.
    greater_equal try_greater_equal = elementwise::compare, Comparison::Ge;
    /// The bits that differ.
    bit_xor try_bit_xor = elementwise::binary, Binary::Xor;
    /// The bits shifted to the left.
    shift_left try_shift_left = elementwise::binary, Binary::ShiftLeft;
    /// The bits shifted to the right, zeros coming in.
    shift_right try_shift_right = elementwise::binary, Binary::ShiftRight;
}

impl Tensor {
    /// Each element to an integer power.
    ///
    /// # Panics
    /// If a tensor of integers is to be raised to a negative power.
    #[must_use]
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Self {
        or_panic(elementwise::unary(Unary::IntegerPower(exponent), self))
    }

    /// The tensor itself, to be taken as a constant by `grad` and `jvp`.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// let slope = grad(|x: &Tensor| x * x.stop_gradient())(&Tensor::from(3.0_f32));
    /// assert_eq!(slope.item::<f32>(), 3.0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn stop_gradient(&self) -> Self {
        or_panic(elementwise::unary(Unary::StopGradient, self))
    }

    /// Each element squared.
    #[must_use]
    #[track_caller]
    pub fn square(&self) -> Self {
        self.powi(2)
    }

    /// The positive part, max(x, 0); its derivative at 0 is 0, as in JAX.
    #[must_use]
    #[track_caller]
    pub fn relu(&self) -> Self {
        let zeros = Self::zeros_like(self);
        let positive = self.greater(&zeros);
        or_panic(select::select(&positive, self, &zeros))
    }

    /// Each element, but not less than `low` nor more than `high`.
    #[must_use]
    #[track_caller]
    pub fn clip(&self, low: impl Operand, high: impl Operand) -> Self {
        self.maximum(low).minimum(high)
    }

    /// The tensor with another element type, converted as Rust's `as` does.
    #[must_use]
    #[track_caller]
    pub fn convert(&self, dtype: DType) -> Self {
        or_panic(convert::convert(self, dtype))
    }

    /// Where this tensor of bools is true the elements of `on_true`, elsewhere those of `on_false`, after
    /// broadcasting.
    ///
    /// # Panics
    /// If this is no tensor of bools, if the element types differ or the shapes do not broadcast;
    /// [`try_select`](Self::try_select) tells instead.
    #[must_use]
    #[track_caller]
    pub fn select(&self, on_true: &Self, on_false: &Self) -> Self {
        or_panic(self.try_select(on_true, on_false))
    }

    /// As [`select`](Self::select).
    ///
    /// # Errors
    /// If this is no tensor of bools, if the element types differ or the shapes do not broadcast.
    #[track_caller]
    pub fn try_select(&self, on_true: &Self, on_false: &Self) -> Result<Self, TensorError> {
        let (on_true, on_false) = elementwise::broadcast_together("select", on_true, on_false)?;
        let (condition, on_true) = elementwise::broadcast_together("select", self, &on_true)?;
        let (_, on_false) = elementwise::broadcast_together("select", &condition, &on_false)?;
        select::select(&condition, &on_true, &on_false)
    }
}
