//! Polynomials with constant coefficients.

use crate::base::fma::Fma;

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
