//! The error function of a single number. The bounds of truncated normal distributions are computed with this function.

use std::f64::consts::SQRT_2;

use pytree_transform::DType;

use crate::functions::rounding::rounded;

/// Returns erf(x / √2) for a number of the given float dtype. Each step is rounded to the dtype, as in JAX.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the number has the precision of the dtype"
)]
pub(super) fn erf_of_quotient(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F64 => erf_of_quotient_f64(x),
        DType::F32 => erf_of_quotient_f32(x as f32).into(),
        half => {
            let quotient = rounded(half, x / rounded(half, SQRT_2));
            rounded(half, erf_of_quotient_f64(quotient * SQRT_2))
        }
    }
}

/// Returns erf(x / √2) in f32, with the rounding of XLA on a CPU. `truncated_normal` of JAX uses this function.
///
/// XLA computes a rational function from Eigen with fused multiply-adds.
fn erf_of_quotient_f32(x: f32) -> f32 {
    // XLA multiplies by the reciprocal of √2.
    let x = x * f32::from_bits(0x3F35_04F3);
    if x.abs() >= f32::from_bits(0x406F_9C68) {
        return 1.0_f32.copysign(x);
    }
    let square = x * x;
    let polynomial = |coefficients: &[u32]| {
        coefficients
            .iter()
            .map(|&bits| f32::from_bits(bits))
            .fold(0.0_f32, |value, coefficient| {
                value.mul_add(square, coefficient)
            })
    };
    let numerator = x * polynomial(&[
        0x3970_2D51,
        0x3B5F_5DA2,
        0x3D50_B6EB,
        0x3E3D_A740,
        0x3F90_6EBA,
    ]);
    let denominator = polynomial(&[
        0xB3FD_3906,
        0x37C5_88DF,
        0x3A85_6D28,
        0x3C66_87D4,
        0x3DE3_4C21,
        0x3EFE_B44A,
        0x3F80_0000,
    ]);
    numerator / denominator
}

/// Returns erf(x / √2) in f64.
///
/// With z = x / √2, the function sums the series 2/√π · exp(-z²) · Σ 2ⁿ z²ⁿ⁺¹ / (1·3·…·(2n+1)) of Abramowitz and Stegun
/// 7.1.6. All terms of the series have the same sign, so no digits cancel.
fn erf_of_quotient_f64(x: f64) -> f64 {
    let z = x / SQRT_2;
    if z.abs() > 6.0 {
        return 1.0_f64.copysign(z);
    }
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term.abs() > sum.abs() * 1e-17 {
        odd += 2.0;
        term *= 2.0 * z * z / odd;
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_deviation_bounds_match_jax() {
        assert_eq!(erf_of_quotient_f32(2.0).to_bits(), 0x3F74_5A18);
        assert_eq!(erf_of_quotient_f32(-2.0).to_bits(), 0xBF74_5A18);
    }

    #[test]
    fn the_series_gives_the_known_values() {
        assert!((erf_of_quotient_f64(2.0) - 0.954_499_736_103_641_6).abs() < 1e-15);
        assert!((erf_of_quotient_f64(0.1) - 0.079_655_674_554_057_96).abs() < 1e-16);
        assert!((erf_of_quotient_f64(-5.0) + 0.999_999_426_696_856).abs() < 1e-15);
        assert!(erf_of_quotient_f64(0.0).abs() < 1e-300);
        assert!((erf_of_quotient_f64(f64::INFINITY) - 1.0).abs() < 1e-300);
    }
}
