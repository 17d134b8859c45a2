//! Special functions of single numbers. Rust's standard library lacks these functions, or computes them inaccurately
//! for some arguments.

pub(crate) mod erf;
pub mod erf_inv;

use super::fma::Fma;
pub(crate) use erf::{erf_f32, erf_f64, erfc_f32, erfc_f64};
pub(crate) use erf_inv::{central_erf_inv_f64, erf_inv_f32, erf_inv_f64, is_central};

/// Evaluates a polynomial of an f32 by Horner's scheme with fused multiply-adds. The coefficient of the highest power
/// is first.
#[inline(always)]
pub(super) fn polynomial_f32<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients
        .into_iter()
        .fold(0.0, |value, coefficient| value.fma(x, coefficient))
}

/// Evaluates a polynomial of an f64 by Horner's scheme with fused multiply-adds. The coefficient of the highest power
/// is first.
#[inline(always)]
pub(super) fn polynomial_f64<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    coefficients
        .into_iter()
        .fold(0.0, |value, coefficient| value.fma(x, coefficient))
}
