//! The scalar function of each operation, for every dtype.
//!
//! The same function runs over a whole array and over the tiles of a fused kernel, so both return the same bits. If a
//! dtype has no function for an operation, the operation's shape rule rejects the dtype.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]
#![allow(
    clippy::float_cmp,
    reason = "only equal numbers are ties, and only a zero is divided by"
)]

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use pytree_base::bug::{bug, expect_some};

use crate::base::array::{Array, reused, with_wide};
use crate::base::dtype::{ArrayElement, DType};
use crate::base::elementary::{self, Elementary};
use crate::base::instructions::arch;
use crate::base::special;
use crate::primitives::elementwise::{Binary, Rounding, Unary};

/// Applies an operation to each element. The result overwrites the operand if it has no other handle.
pub fn unary(operation: Unary, operand: Arc<Array>) -> Array {
    match operation {
        Unary::StopGradient => Arc::unwrap_or_clone(operand),
        _ => with_wide!(operand.dtype(), T => arch().dispatch(Applied::<T> {
            operation,
            operand,
            element: PhantomData,
        })),
    }
}

/// Applies an operation to each pair of elements of two arrays of the same shape. The result overwrites an operand that
/// has no other handle.
pub fn binary(operation: Binary, left: Arc<Array>, right: Arc<Array>) -> Array {
    with_wide!(left.dtype(), T => T::binary(operation, PairInPlace(left, right)))
}

/// An operation with its operand. The evaluation is compiled for each instruction set.
struct Applied<T> {
    operation: Unary,
    operand: Arc<Array>,
    element: PhantomData<T>,
}

impl<T: Kernels> pulp::WithSimd for Applied<T> {
    type Output = Array;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Array {
        T::unary(self.operation, InPlace(self.operand))
    }
}

/// Elements to which a function of one number can be applied.
pub(crate) trait Map<T> {
    type Output;
    fn map(self, function: impl Fn(T) -> T) -> Self::Output;
}

/// Pairs of elements to which a function of two numbers can be applied.
pub(crate) trait Zip<T> {
    type Output;
    fn zip(self, function: impl Fn(T, T) -> T) -> Self::Output;
}

/// An array to which a function is applied. The results overwrite the array if the array has no other handle.
struct InPlace(Arc<Array>);

/// Two arrays of the same shape to which a function is applied. The results overwrite an array that has no other
/// handle.
struct PairInPlace(Arc<Array>, Arc<Array>);

impl<T: ArrayElement> Map<T> for InPlace {
    type Output = Array;

    #[inline(always)]
    fn map(self, function: impl Fn(T) -> T) -> Array {
        let info = self.0.info.clone();
        let mut elements = Array::into_elements::<T>(self.0);
        for element in &mut elements {
            *element = function(*element);
        }
        Array {
            info,
            data: T::data(elements),
        }
    }
}

impl<T: ArrayElement> Zip<T> for PairInPlace {
    type Output = Array;

    fn zip(self, function: impl Fn(T, T) -> T) -> Array {
        let Self(left, mut right) = self;
        let info = left.info.clone();
        if Arc::strong_count(&left) > 1 {
            if let Some(array) = Arc::get_mut(&mut right) {
                let expected = "elements of the type of the operation";
                let elements = expect_some(T::slice_mut(&mut array.data), expected);
                let others = left.elements::<T>();
                elements
                    .iter_mut()
                    .zip(others)
                    .for_each(|(element, &other)| *element = function(other, *element));
                return Arc::unwrap_or_clone(right);
            }
            let mut elements = reused::<T>(info.len());
            let operands = left.elements::<T>().iter().zip(right.elements::<T>());
            for (element, (&left, &right)) in elements.iter_mut().zip(operands) {
                *element = function(left, right);
            }
            return Array {
                info,
                data: T::data(elements),
            };
        }
        let mut elements = Array::into_elements::<T>(left);
        let others = right.elements::<T>();
        elements
            .iter_mut()
            .zip(others)
            .for_each(|(element, &other)| *element = function(*element, other));
        Array {
            info,
            data: T::data(elements),
        }
    }
}

/// A dtype and its scalar functions for all operations.
pub(crate) trait Kernels: ArrayElement {
    fn unary<M: Map<Self>>(operation: Unary, elements: M) -> M::Output;
    fn binary<Z: Zip<Self>>(operation: Binary, elements: Z) -> Z::Output;
}

#[cold]
fn no_kernel(operation: &dyn Debug, dtype: DType) -> ! {
    bug(format_args!(
        "no {operation:?} of {dtype}, because the shape rule of the operation rejects this dtype"
    ))
}

macro_rules! floats {
    ($($float:ident, $erf:path, $erfc:path, $erf_inv:path, $asinh:path, $acosh:path, $atanh:path;)*) => {$(
        impl Kernels for $float {
            #[inline(always)]
            fn unary<M: Map<Self>>(operation: Unary, elements: M) -> M::Output {
                match operation {
                    Unary::Neg => elements.map(|x| -x),
                    Unary::Abs => elements.map(|x| x.abs()),
                    // A zero keeps its sign, and NaN stays NaN, as in JAX.
                    Unary::Sign => elements.map(|x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
                    Unary::Floor => elements.map(|x| x.floor()),
                    Unary::Ceil => elements.map(|x| x.ceil()),
                    Unary::Round(Rounding::ToEven) => elements.map(|x| x.round_ties_even()),
                    Unary::Round(Rounding::AwayFromZero) => elements.map(|x| x.round()),
                    Unary::Exp => elements.map(Elementary::exp),
                    Unary::Exp2 => elements.map(|x| x.exp2()),
                    Unary::Expm1 => elements.map(|x| x.exp_m1()),
                    Unary::Log => elements.map(Elementary::log),
                    Unary::Log1p => elements.map(|x| x.ln_1p()),
                    Unary::Sqrt => elements.map(|x| x.sqrt()),
                    Unary::Rsqrt => elements.map(|x| 1.0 / x.sqrt()),
                    Unary::Cbrt => elements.map(|x| x.cbrt()),
                    Unary::Sin => elements.map(|x| x.sin()),
                    Unary::Cos => elements.map(|x| x.cos()),
                    Unary::Tan => elements.map(|x| x.tan()),
                    Unary::Asin => elements.map(|x| x.asin()),
                    Unary::Acos => elements.map(|x| x.acos()),
                    Unary::Atan => elements.map(|x| x.atan()),
                    Unary::Sinh => elements.map(|x| x.sinh()),
                    Unary::Cosh => elements.map(|x| x.cosh()),
                    Unary::Tanh => elements.map(Elementary::tanh),
                    Unary::Asinh => elements.map($asinh),
                    Unary::Acosh => elements.map($acosh),
                    Unary::Atanh => elements.map($atanh),
                    Unary::Logistic => elements.map(Elementary::logistic),
                    Unary::Erf => elements.map($erf),
                    Unary::Erfc => elements.map($erfc),
                    Unary::ErfInv => elements.map($erf_inv),
                    Unary::IntegerPower(2) => elements.map(|x| x * x),
                    Unary::IntegerPower(3) => elements.map(|x| x * x * x),
                    Unary::IntegerPower(exponent) => elements.map(|x| x.powi(exponent)),
                    Unary::StopGradient => elements.map(|x| x),
                    Unary::Not | Unary::PopulationCount => no_kernel(&operation, Self::dtype()),
                }
            }

            #[inline(always)]
            fn binary<Z: Zip<Self>>(operation: Binary, elements: Z) -> Z::Output {
                match operation {
                    Binary::Add => elements.zip(|l, r| l + r),
                    Binary::Sub => elements.zip(|l, r| l - r),
                    Binary::Mul => elements.zip(|l, r| l * r),
                    Binary::Div => elements.zip(|l, r| l / r),
                    Binary::Rem => elements.zip(|l, r| l % r),
                    Binary::Pow => elements.zip(|l, r| l.powf(r)),
                    Binary::Atan2 => elements.zip(|l, r| l.atan2(r)),
                    // The result is NaN if either operand is NaN, and 0 is greater than -0, as in JAX.
                    Binary::Max => elements.zip(|l, r| {
                        if l == r {
                            Self::from_bits(l.to_bits() & r.to_bits())
                        } else if l > r || l.is_nan() {
                            l
                        } else {
                            r
                        }
                    }),
                    Binary::Min => elements.zip(|l, r| {
                        if l == r {
                            Self::from_bits(l.to_bits() | r.to_bits())
                        } else if l < r || l.is_nan() {
                            l
                        } else {
                            r
                        }
                    }),
                    Binary::LogAddExp => elements.zip(|l, r| {
                        let difference = l - r;
                        if difference.is_nan() {
                            // Either both operands are infinities of the same sign, or one operand is NaN.
                            l + r
                        } else {
                            l.max(r) + (-difference.abs()).exp().ln_1p()
                        }
                    }),
                    Binary::And
                    | Binary::Or
                    | Binary::Xor
                    | Binary::ShiftLeft
                    | Binary::ShiftRight
                    | Binary::ShiftRightArithmetic => no_kernel(&operation, Self::dtype()),
                }
            }
        }
    )*};
}
floats! {
    f32, elementary::erf_f32, special::erfc_f32, special::erf_inv_f32, special::asinh_f32, special::acosh_f32, special::atanh_f32;
    f64, special::erf_f64, special::erfc_f64, special::erf_inv_f64, special::asinh_f64, special::acosh_f64, special::atanh_f64;
}

/// Returns a power of an integer, which wraps around. A negative power is rounded toward zero: it is ±1 for a base of ±1,
/// and 0 for other bases. JAX does not define the negative powers of other bases, and NumPy raises an error.
#[inline(always)]
fn integer_power(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            -1 | 1 if exponent % 2 != 0 => base,
            -1 | 1 => 1,
            _ => 0,
        };
    }
    let (mut power, mut square, mut rest) = (1_i64, base, exponent);
    while rest > 0 {
        if rest % 2 == 1 {
            power = power.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest /= 2;
    }
    power
}

macro_rules! integers {
    ($($integer:ident, $unsigned:ident, $signed:ident, $all_bits:expr, $neg:expr, $abs:expr, $sign:expr;)*) => {$(
        #[allow(
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            clippy::cast_lossless,
            trivial_numeric_casts,
            reason = "the casts reinterpret bits as the signed or the unsigned type of the same width"
        )]
        impl Kernels for $integer {
            #[inline(always)]
            fn unary<M: Map<Self>>(operation: Unary, elements: M) -> M::Output {
                match operation {
                    Unary::Neg => elements.map($neg),
                    Unary::Abs => elements.map($abs),
                    Unary::Sign => elements.map($sign),
                    Unary::Not => elements.map(|x| !x),
                    Unary::PopulationCount => elements.map(|x| x.count_ones() as Self),
                    Unary::IntegerPower(exponent) => {
                        elements.map(|x| x.wrapping_pow(exponent.unsigned_abs()))
                    }
                    Unary::StopGradient => elements.map(|x| x),
                    _ => no_kernel(&operation, Self::dtype()),
                }
            }

            #[inline(always)]
            fn binary<Z: Zip<Self>>(operation: Binary, elements: Z) -> Z::Output {
                // A shift by the bit width or more returns the fill value.
                let inside = |r: Self| u32::try_from(r).ok().filter(|&r| r < Self::BITS);
                match operation {
                    Binary::Add => elements.zip(Self::wrapping_add),
                    Binary::Sub => elements.zip(Self::wrapping_sub),
                    Binary::Mul => elements.zip(Self::wrapping_mul),
                    // Division by zero returns a quotient with all bits set, and the dividend as remainder, as in XLA.
                    Binary::Div => elements.zip(|l, r| if r == 0 { $all_bits } else { l.wrapping_div(r) }),
                    Binary::Rem => elements.zip(|l, r| if r == 0 { l } else { l.wrapping_rem(r) }),
                    #[allow(clippy::cast_possible_truncation, reason = "the power wraps around")]
                    Binary::Pow => elements.zip(|l, r| integer_power(l.into(), r.into()) as Self),
                    Binary::Max => elements.zip(Self::max),
                    Binary::Min => elements.zip(Self::min),
                    Binary::And => elements.zip(|l, r| l & r),
                    Binary::Or => elements.zip(|l, r| l | r),
                    Binary::Xor => elements.zip(|l, r| l ^ r),
                    Binary::ShiftLeft => elements.zip(|l, r| inside(r).map_or(0, |r| l << r)),
                    Binary::ShiftRight => {
                        elements.zip(|l, r| inside(r).map_or(0, |r| (l as $unsigned >> r) as Self))
                    }
                    Binary::ShiftRightArithmetic => {
                        elements.zip(|l, r| (l as $signed >> inside(r).unwrap_or(Self::BITS - 1)) as Self)
                    }
                    Binary::Atan2 | Binary::LogAddExp => no_kernel(&operation, Self::dtype()),
                }
            }
        }
    )*};
}
integers! {
    i32, u32, i32, -1, Self::wrapping_neg, Self::wrapping_abs, Self::signum;
    i64, u64, i64, -1, Self::wrapping_neg, Self::wrapping_abs, Self::signum;
    u32, u32, i32, Self::MAX, Self::wrapping_neg, |x| x, |x| Self::from(x > 0);
}

impl Kernels for bool {
    #[inline(always)]
    fn unary<M: Map<Self>>(operation: Unary, elements: M) -> M::Output {
        match operation {
            Unary::Not => elements.map(|x| !x),
            Unary::StopGradient => elements.map(|x| x),
            _ => no_kernel(&operation, Self::dtype()),
        }
    }

    #[inline(always)]
    fn binary<Z: Zip<Self>>(operation: Binary, elements: Z) -> Z::Output {
        match operation {
            Binary::And => elements.zip(|l, r| l & r),
            Binary::Or => elements.zip(|l, r| l | r),
            Binary::Xor => elements.zip(|l, r| l ^ r),
            _ => no_kernel(&operation, Self::dtype()),
        }
    }
}
