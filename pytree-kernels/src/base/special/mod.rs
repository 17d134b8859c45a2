//! Special functions of single numbers. Rust's standard library lacks these functions, or computes them inaccurately
//! for some arguments.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

pub mod erf;
pub mod erf_inv;

pub(crate) use erf::{erf_f64, erfc_f32, erfc_f64};
pub(crate) use erf_inv::{erf_inv_f32, erf_inv_f64};

/// Evaluates a polynomial of an f32 by Horner's scheme with fused multiply-adds. The coefficient of the highest power
/// is first.
#[inline(always)]
pub(super) fn polynomial_f32<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients
        .into_iter()
        .fold(0.0, |value, coefficient| value.mul_add(x, coefficient))
}

/// Evaluates a polynomial of an f64 by Horner's scheme with fused multiply-adds. The coefficient of the highest power
/// is first.
#[inline(always)]
pub(super) fn polynomial_f64<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    coefficients
        .into_iter()
        .fold(0.0, |value, coefficient| value.mul_add(x, coefficient))
}

/// Computes the inverse hyperbolic sine in double precision, and rounds the result to f32.
#[allow(clippy::cast_possible_truncation, reason = "the result is rounded")]
pub(crate) fn asinh_f32(x: f32) -> f32 {
    f64::from(x).asinh() as f32
}

/// Computes the inverse hyperbolic sine. For large arguments, the standard library's version overflows, but this
/// version does not.
pub(crate) fn asinh_f64(x: f64) -> f64 {
    if x.abs() > LARGE {
        (x.abs().ln() + std::f64::consts::LN_2).copysign(x)
    } else {
        x.asinh()
    }
}

/// Computes the inverse hyperbolic cosine in double precision, and rounds the result to f32.
#[allow(clippy::cast_possible_truncation, reason = "the result is rounded")]
pub(crate) fn acosh_f32(x: f32) -> f32 {
    acosh_f64(f64::from(x)) as f32
}

/// Computes the inverse hyperbolic cosine from `x - 1`, which keeps all digits near 1. The standard library computes
/// log(x + √(x² - 1)), which loses half of the digits near 1 and overflows for large `x`.
pub(crate) fn acosh_f64(x: f64) -> f64 {
    if x < 1.0 {
        return f64::NAN;
    }
    if x > LARGE {
        return x.ln() + std::f64::consts::LN_2;
    }
    let above = x - 1.0;
    (above + (above * (above + 2.0)).sqrt()).ln_1p()
}

/// Computes the inverse hyperbolic tangent in double precision, and rounds the result to f32.
#[allow(clippy::cast_possible_truncation, reason = "the result is rounded")]
pub(crate) fn atanh_f32(x: f32) -> f32 {
    atanh_f64(f64::from(x)) as f32
}

/// Computes the inverse hyperbolic tangent, with the same accuracy near -1 and near 1.
pub(crate) fn atanh_f64(x: f64) -> f64 {
    let distance = x.abs();
    (0.5 * (2.0 * distance / (1.0 - distance)).ln_1p()).copysign(x)
}

/// Above this bound, x² + 1 and x² - 1 are both rounded to x², so the argument of the logarithm is 2x.
pub const LARGE: f64 = 1e10;
