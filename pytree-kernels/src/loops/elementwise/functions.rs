//! The scalar function of each operation, for each type in which kernels compute: `f32`, `f64`, `i32` and `i64` for all integers, and
//! `bool`.
//!
//! The same function runs over a whole array and over the tiles of a fused kernel, so both return the same bits. A long function is
//! called in a closure that is always inlined: the compiler does not inline long functions that are arguments, and functions that are
//! not inlined have no wide instructions. If a
//! dtype has no function for an operation, the operation's shape rule rejects the dtype.

#![allow(
    clippy::float_cmp,
    reason = "only equal numbers are ties, and only a zero is divided by"
)]

use std::fmt::Debug;

use crate::base::dtype::{ArrayElement, DType};
use crate::base::elementary::Elementary;
use crate::base::power::Power;
use crate::base::rare::Rare;
use crate::base::special;
use crate::base::trigonometric::Angle;
use pytree_base::bug::bug;

use crate::loops::elementwise::operations::{Binary, Rounding, Unary};

/// Elements to which a function of one number can be applied.
pub(crate) trait Map<T> {
    type Output;
    fn map(self, function: impl Fn(T) -> T + Copy + Send + 'static) -> Self::Output;
    /// Applies `fast` to the elements for which `is_fast` holds, and `slow` to the few others.
    fn map_by_speed(
        self,
        is_fast: impl Fn(T) -> bool + Copy + Send + 'static,
        fast: impl Fn(T) -> T + Copy + Send + 'static,
        slow: impl Fn(T) -> T + Copy + Send + 'static,
    ) -> Self::Output;
}

/// Pairs of elements to which a function of two numbers can be applied.
pub(crate) trait Zip<T> {
    type Output;
    fn zip(self, function: impl Fn(T, T) -> T + Copy + Send + 'static) -> Self::Output;
}

/// A type in which kernels compute, and its scalar functions for all operations. `dtype` is the dtype of the elements, which may be
/// narrower. A result may have upper bits that the dtype lacks.
pub(crate) trait Kernels: ArrayElement {
    fn unary<M: Map<Self>>(operation: Unary, dtype: DType, elements: M) -> M::Output;
    fn binary<Z: Zip<Self>>(operation: Binary, dtype: DType, elements: Z) -> Z::Output;
}

#[cold]
fn no_kernel(operation: &dyn Debug, dtype: DType) -> ! {
    bug(format_args!(
        "no {operation:?} of {dtype}, because the shape rule of the operation rejects this dtype"
    ))
}

/// Computes a power of a float with an exponent below 32 in the steps of `powi`, but without a loop that ends by the exponent.
macro_rules! small_power {
    ($x:expr, $exponent:expr) => {{
        let (mut power, mut square, exponent) = (1.0, $x, $exponent);
        let mut bit = 0;
        while bit < 5 {
            let product = power * square;
            power = if exponent >> bit & 1 == 1 {
                product
            } else {
                power
            };
            square *= square;
            bit += 1;
        }
        power
    }};
}

macro_rules! floats {
    ($($float:ident, $erf:path, $erfc:path, $erf_inv:path, $is_central:expr, $central_erf_inv:path;)*) => {$(
        impl Kernels for $float {
            #[inline(always)]
            fn unary<M: Map<Self>>(operation: Unary, _: DType, elements: M) -> M::Output {
                match operation {
                    Unary::Neg => elements.map(|x| -x),
                    Unary::Abs => elements.map(|x| x.abs()),
                    // A zero keeps its sign, and NaN stays NaN, as in JAX.
                    Unary::Sign => elements.map(|x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
                    Unary::Floor => elements.map(|x| x.floor()),
                    Unary::Ceil => elements.map(|x| x.ceil()),
                    Unary::Round(Rounding::ToEven) => elements.map(|x| x.round_ties_even()),
                    Unary::Round(Rounding::AwayFromZero) => elements.map(|x| x.round()),
                    Unary::Exp => elements.map(#[inline(always)] |x| Elementary::exp(x)),
                    Unary::Exp2 => elements.map(#[inline(always)] |x| Elementary::exp2(x)),
                    Unary::Expm1 => elements.map(#[inline(always)] |x| Elementary::expm1(x)),
                    Unary::Log => elements.map(#[inline(always)] |x| Elementary::log(x)),
                    Unary::Log1p => elements.map(#[inline(always)] |x| Elementary::log1p(x)),
                    Unary::Sqrt => elements.map(|x| x.sqrt()),
                    Unary::Rsqrt => elements.map_by_speed(
                        |x| (Self::MIN_POSITIVE..Self::INFINITY).contains(&x),
                        #[inline(always)] |x| Elementary::rsqrt(x),
                        |x| 1.0 / x.sqrt(),
                    ),
                    Unary::Cbrt => elements.map(Rare::cube_root),
                    Unary::Sin => elements.map_by_speed(Angle::is_small, #[inline(always)] |x| Angle::sin(x), Angle::slow_sin),
                    Unary::Cos => elements.map_by_speed(Angle::is_small, #[inline(always)] |x| Angle::cos(x), Angle::slow_cos),
                    Unary::Tan => elements.map_by_speed(Angle::is_small, #[inline(always)] |x| Angle::tan(x), Angle::slow_tan),
                    Unary::Asin => elements.map(#[inline(always)] |x| Angle::asin(x)),
                    Unary::Acos => elements.map(#[inline(always)] |x| Angle::acos(x)),
                    Unary::Atan => elements.map(#[inline(always)] |x| Angle::atan(x)),
                    Unary::Sinh => elements.map(#[inline(always)] |x| Elementary::sinh(x)),
                    Unary::Cosh => elements.map(#[inline(always)] |x| Elementary::cosh(x)),
                    Unary::Tanh => elements.map(#[inline(always)] |x| Elementary::tanh(x)),
                    Unary::Asinh => elements.map(#[inline(always)] |x| Elementary::asinh(x)),
                    Unary::Acosh => elements.map(#[inline(always)] |x| Elementary::acosh(x)),
                    Unary::Atanh => elements.map(#[inline(always)] |x| Elementary::atanh(x)),
                    Unary::Logistic => elements.map(#[inline(always)] |x| Elementary::logistic(x)),
                    Unary::Erf => elements.map(#[inline(always)] |x| $erf(x)),
                    Unary::Erfc => elements.map(#[inline(always)] |x| $erfc(x)),
                    Unary::ErfInv => elements.map_by_speed($is_central, #[inline(always)] |x| $central_erf_inv(x), $erf_inv),
                    Unary::IntegerPower(-1) => elements.map(|x| 1.0 / x),
                    Unary::IntegerPower(-2) => elements.map(|x| 1.0 / (x * x)),
                    Unary::IntegerPower(2) => elements.map(|x| x * x),
                    Unary::IntegerPower(3) => elements.map(|x| x * x * x),
                    Unary::IntegerPower(4) => elements.map(|x| (x * x) * (x * x)),
                    Unary::IntegerPower(exponent @ -31..=31) => elements.map(#[inline(always)] move |x| {
                        let power = small_power!(x, exponent.unsigned_abs());
                        if exponent < 0 { 1.0 / power } else { power }
                    }),
                    Unary::IntegerPower(exponent) => elements.map(move |x| x.powi(exponent)),
                    Unary::StopGradient => elements.map(|x| x),
                    Unary::Not | Unary::PopulationCount => no_kernel(&operation, Self::dtype()),
                }
            }

            #[inline(always)]
            fn binary<Z: Zip<Self>>(operation: Binary, _: DType, elements: Z) -> Z::Output {
                match operation {
                    Binary::Add => elements.zip(|l, r| l + r),
                    Binary::Sub => elements.zip(|l, r| l - r),
                    Binary::Mul => elements.zip(|l, r| l * r),
                    Binary::Div => elements.zip(|l, r| l / r),
                    Binary::Rem => elements.zip(|l, r| l % r),
                    Binary::Pow => elements.zip(#[inline(always)] |l, r| Power::power(l, r)),
                    Binary::Atan2 => elements.zip(Rare::angle_of),
                    Binary::Max => elements.zip(#[inline(always)] |l, r| Elementary::greater(l, r)),
                    Binary::Min => elements.zip(#[inline(always)] |l, r| Elementary::less(l, r)),
                    Binary::LogAddExp => elements.zip(#[inline(always)] |l, r| Elementary::log_add_exp(l, r)),
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
    f32, special::erf_f32, special::erfc_f32, special::erf_inv_f32, |_| true, special::erf_inv_f32;
    f64, special::erf_f64, special::erfc_f64, special::erf_inv_f64, special::is_central, special::central_erf_inv_f64;
}

/// The functions of integers that the library of Rust lacks.
trait Integer: Sized {
    /// Returns the bits of an integer of this type that an integer of a dtype has.
    fn own_bits(dtype: DType) -> Self;
    /// Returns a power, which wraps around. A negative power is rounded toward zero: it is ±1 for a base of ±1, and 0 for other bases.
    /// JAX does not define the negative powers of other bases, and NumPy raises an error.
    fn power(self, exponent: Self) -> Self;
    /// Returns the quotient by a number other than 0, rounded toward zero, of numbers of 32 bits. It wraps around. The quotient of f64
    /// numbers, for which there are wide instructions, is never rounded up to an integer: it is further below the integer than the
    /// distance of two f64 numbers.
    fn short_quotient(self, divisor: Self) -> Self;
}

/// The integer types in which kernels compute. The lower bits of a result are those of the arithmetic of a narrower dtype, which wraps
/// around.
macro_rules! integers {
    ($($integer:ident),*) => {$(
        impl Integer for $integer {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, trivial_numeric_casts, reason = "the type has all bits of the dtype")]
            fn own_bits(dtype: DType) -> Self {
                (u64::MAX >> (u64::BITS as usize - 8 * dtype.bytes())).cast_signed() as Self
            }

            #[inline(always)]
            fn power(self, exponent: Self) -> Self {
                if exponent < 0 {
                    return match self {
                        -1 | 1 if exponent % 2 != 0 => self,
                        -1 | 1 => 1,
                        _ => 0,
                    };
                }
                let (mut power, mut square, mut rest) = (1, self, exponent);
                while rest > 0 {
                    if rest % 2 == 1 {
                        power = Self::wrapping_mul(power, square);
                    }
                    square = square.wrapping_mul(square);
                    rest /= 2;
                }
                power
            }

            #[inline(always)]
            #[allow(
                unsafe_code,
                clippy::cast_possible_truncation,
                clippy::cast_lossless,
                trivial_numeric_casts,
                reason = "the quotient has at most 33 bits, and wraps around in i32"
            )]
            fn short_quotient(self, divisor: Self) -> Self {
                let quotient = self as f64 / divisor as f64;
                // SAFETY: the quotient is finite and fits i64, because both numbers have 32 bits and the divisor is not 0.
                unsafe { quotient.to_int_unchecked::<i64>() as Self }
            }
        }

        impl Kernels for $integer {
            #[inline(always)]
            fn unary<M: Map<Self>>(operation: Unary, dtype: DType, elements: M) -> M::Output {
                match operation {
                    Unary::Neg => elements.map(Self::wrapping_neg),
                    Unary::Abs => elements.map(Self::wrapping_abs),
                    Unary::Sign => elements.map(Self::signum),
                    Unary::Not => elements.map(|x| !x),
                    Unary::PopulationCount => {
                        let own = Self::own_bits(dtype);
                        elements.map(move |x| (x & own).count_ones().cast_signed().into())
                    }
                    Unary::IntegerPower(2) => elements.map(|x| x.wrapping_mul(x)),
                    Unary::IntegerPower(exponent) => {
                        elements.map(move |x| x.wrapping_pow(exponent.unsigned_abs()))
                    }
                    Unary::StopGradient => elements.map(|x| x),
                    _ => no_kernel(&operation, dtype),
                }
            }

            #[inline(always)]
            fn binary<Z: Zip<Self>>(operation: Binary, dtype: DType, elements: Z) -> Z::Output {
                let own = Self::own_bits(dtype);
                // A shift by the width of the dtype or more returns the fill value.
                let width = Self::from(own.count_ones().cast_signed());
                let inside = move |r: Self| (0..width).contains(&r);
                let is_short = width <= 32;
                match operation {
                    Binary::Add => elements.zip(Self::wrapping_add),
                    Binary::Sub => elements.zip(Self::wrapping_sub),
                    Binary::Mul => elements.zip(Self::wrapping_mul),
                    // Division by zero returns a quotient with all bits set, and the dividend as remainder, as in XLA.
                    Binary::Div if is_short => elements.zip(#[inline(always)] |l, r| {
                        let quotient = l.short_quotient(if r == 0 { 1 } else { r });
                        if r == 0 { -1 } else { quotient }
                    }),
                    Binary::Rem if is_short => elements.zip(#[inline(always)] |l, r| {
                        let quotient = l.short_quotient(if r == 0 { 1 } else { r });
                        if r == 0 { l } else { l.wrapping_sub(quotient.wrapping_mul(r)) }
                    }),
                    Binary::Div => elements.zip(|l, r| if r == 0 { -1 } else { l.wrapping_div(r) }),
                    Binary::Rem => elements.zip(|l, r| if r == 0 { l } else { l.wrapping_rem(r) }),
                    Binary::Pow => elements.zip(Self::power),
                    Binary::Max => elements.zip(Self::max),
                    Binary::Min => elements.zip(Self::min),
                    Binary::And => elements.zip(|l, r| l & r),
                    Binary::Or => elements.zip(|l, r| l | r),
                    Binary::Xor => elements.zip(|l, r| l ^ r),
                    // The widths of the shifts that are not used are limited, so that the loops contain no branch.
                    Binary::ShiftLeft => elements.zip(move |l, r| {
                        let shifted = l << (r & (width - 1));
                        if inside(r) { shifted } else { 0 }
                    }),
                    Binary::ShiftRight => elements.zip(move |l, r| {
                        let shifted = ((l & own).cast_unsigned() >> (r & (width - 1))).cast_signed();
                        if inside(r) { shifted } else { 0 }
                    }),
                    Binary::ShiftRightArithmetic => {
                        let above = own.leading_zeros();
                        elements.zip(move |l, r| {
                            let signed = l << above >> above;
                            signed >> if inside(r) { r } else { width - 1 }
                        })
                    }
                    Binary::Atan2 | Binary::LogAddExp => no_kernel(&operation, dtype),
                }
            }
        }
    )*};
}
integers!(i32, i64);

impl Kernels for bool {
    #[inline(always)]
    fn unary<M: Map<Self>>(operation: Unary, dtype: DType, elements: M) -> M::Output {
        match operation {
            Unary::Not => elements.map(|x| !x),
            Unary::StopGradient => elements.map(|x| x),
            _ => no_kernel(&operation, dtype),
        }
    }

    #[inline(always)]
    fn binary<Z: Zip<Self>>(operation: Binary, dtype: DType, elements: Z) -> Z::Output {
        match operation {
            Binary::And => elements.zip(|l, r| l & r),
            Binary::Or => elements.zip(|l, r| l | r),
            Binary::Xor => elements.zip(|l, r| l ^ r),
            _ => no_kernel(&operation, dtype),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_quotients_round_toward_zero() {
        let near = |number: i64| (number - 3..=number + 3).chain([-number]);
        let numbers = [
            0,
            7,
            1000,
            0xFFFF,
            1 << 20,
            i64::from(i32::MAX),
            i64::from(u32::MAX),
        ];
        let numbers: Vec<i64> = numbers.into_iter().flat_map(near).collect();
        for (&left, &right) in numbers
            .iter()
            .flat_map(|left| numbers.iter().map(move |right| (left, right)))
        {
            if right != 0 {
                assert_eq!(left.short_quotient(right), left / right, "{left} / {right}");
            }
            let narrow = [left, right].map(i32::try_from);
            if let [Ok(left), Ok(right)] = narrow
                && right != 0
            {
                let expected = left.wrapping_div(right);
                assert_eq!(left.short_quotient(right), expected, "{left} / {right}");
            }
        }
        assert_eq!(i32::MIN.short_quotient(-1), i32::MIN);
    }
}
