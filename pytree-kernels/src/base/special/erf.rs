//! The error function erf(x), and the complementary error function 1 - erf(x).
#![allow(
    clippy::unreadable_literal,
    clippy::excessive_precision,
    clippy::approx_constant,
    reason = "coefficients stand as they were published"
)]
#![allow(clippy::float_cmp, reason = "only the ends themselves are infinite")]

use crate::base::special::polynomial_f64;

/// Computes the error function (Cody, "Rational Chebyshev approximations for the error function", 1969).
pub(crate) fn erf_f64(x: f64) -> f64 {
    if x.abs() <= 0.46875 {
        return erf_near_zero(x);
    }
    if x.abs() > 6.0 {
        return 1.0_f64.copysign(x);
    }
    let value = 1.0 - erfc_beyond(x.abs());
    if x.is_nan() { x } else { value.copysign(x) }
}

/// Returns 1 - erf(x) by the approximations of [`erf_f64`]. The result is accurate even if erf(x) is near 1.
pub(crate) fn erfc_f64(x: f64) -> f64 {
    if x.abs() <= 0.46875 {
        return 1.0 - erf_near_zero(x);
    }
    if x.abs() > 27.3 {
        return if x > 0.0 { 0.0 } else { 2.0 };
    }
    let value = erfc_beyond(x.abs());
    if x < 0.0 { 2.0 - value } else { value }
}

/// Computes erf(x) for |x| ≤ 0.46875.
fn erf_near_zero(x: f64) -> f64 {
    let square = x * x;
    let numerator = polynomial_f64(square, NEAR_NUMERATOR);
    let denominator = polynomial_f64(square, NEAR_DENOMINATOR);
    x * (numerator / denominator)
}

/// Computes 1 - erf(x) for x ≥ 0.46875, as exp(-x²) times a rational function.
fn erfc_beyond(x: f64) -> f64 {
    let factor = if x <= 4.0 {
        polynomial_f64(x, MIDDLE_NUMERATOR) / polynomial_f64(x, MIDDLE_DENOMINATOR)
    } else {
        let z = 1.0 / (x * x);
        let rest = z * polynomial_f64(z, FAR_NUMERATOR) / polynomial_f64(z, FAR_DENOMINATOR);
        (std::f64::consts::FRAC_2_SQRT_PI / 2.0 - rest) / x
    };
    // The exponential would magnify the rounding error of x². So compute this error and correct the result.
    let square = x * x;
    let rest = x.mul_add(x, -square);
    let exponential = (-square).exp();
    (-rest).mul_add(exponential, exponential) * factor
}

// The coefficients of numerators and denominators. `NEAR` has polynomials of x² for |x| ≤ 0.46875. `MIDDLE` has
// polynomials of |x| for greater |x| up to 4. `FAR` has polynomials of 1/x² for |x| above 4. The lowering to StableHLO
// also uses these coefficients.
/// The numerator near 0.
pub const NEAR_NUMERATOR: [f64; 5] = [
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
];
/// The denominator near 0.
pub const NEAR_DENOMINATOR: [f64; 5] = [
    1.0,
    2.36012909523441209e1,
    2.44024637934444173e2,
    1.28261652607737228e3,
    2.84423683343917062e3,
];
/// The numerator in the middle.
pub const MIDDLE_NUMERATOR: [f64; 9] = [
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
];
/// The denominator in the middle.
pub const MIDDLE_DENOMINATOR: [f64; 9] = [
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
];
/// The numerator far from 0.
pub const FAR_NUMERATOR: [f64; 6] = [
    1.63153871373020978e-2,
    3.05326634961232344e-1,
    3.60344899949804439e-1,
    1.25781726111229246e-1,
    1.60837851487422766e-2,
    6.58749161529837803e-4,
];
/// The denominator far from 0.
pub const FAR_DENOMINATOR: [f64; 6] = [
    1.0,
    2.56852019228982242e0,
    1.87295284992346725e0,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::elementary::{erf_f32, erfc_f32};

    /// Computes erf and erfc by the series of Abramowitz and Stegun 7.1.6 and the continued fraction 7.1.14.
    fn slow(x: f64) -> (f64, f64) {
        let scale = std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp();
        if x < 2.5 {
            let (mut term, mut sum, mut odd) = (x, x, 1.0);
            while term > sum * 1e-18 {
                odd += 2.0;
                term *= 2.0 * x * x / odd;
                sum += term;
            }
            (scale * sum, 1.0 - scale * sum)
        } else {
            let fraction = (1..200)
                .rev()
                .fold(x, |fraction, k| x + f64::from(k) / 2.0 / fraction);
            let complement = scale / 2.0 / fraction;
            (1.0 - complement, complement)
        }
    }

    #[test]
    fn erf_agrees_with_series_and_continued_fraction() {
        for step in 1..2600 {
            let x = f64::from(step) / 100.0;
            let (erf, erfc) = slow(x);
            assert!((erf_f64(x) - erf).abs() <= 1e-15, "erf({x})");
            assert!((erf_f64(-x) + erf).abs() <= 1e-15, "erf(-{x})");
            // The reference itself is inaccurate: the difference 1 - erf(x) loses digits, and exp(-x²) for a large x is
            // wrong by up to ten units in the last place.
            let tolerance = if x < 2.5 { 1e-15 } else { 2e-13 * erfc };
            assert!((erfc_f64(x) - erfc).abs() <= tolerance, "erfc({x})");
            assert!((erfc_f64(-x) - (2.0 - erfc)).abs() <= 1e-15, "erfc(-{x})");
        }
    }

    #[test]
    fn known_values_agree_to_last_digits() {
        // The expected values were computed by the power series with 120 decimal digits.
        assert!((erf_f64(0.5) - 0.520_499_877_813_046_5).abs() < 4e-16);
        assert!((erf_f64(1.0) - 0.842_700_792_949_714_9).abs() < 4e-16);
        assert!((erfc_f64(2.0) / 4.677_734_981_047_266e-3 - 1.0).abs() < 1.5e-15);
        assert!((erfc_f64(10.0) / 2.088_487_583_762_545e-45 - 1.0).abs() < 1.5e-15);
    }

    #[test]
    fn ends_zeros_and_nan() {
        assert_eq!(erf_f64(f64::INFINITY), 1.0);
        assert_eq!(erf_f64(f64::NEG_INFINITY), -1.0);
        assert_eq!(erfc_f64(f64::INFINITY), 0.0);
        assert_eq!(erfc_f64(f64::NEG_INFINITY), 2.0);
        assert_eq!(erf_f64(-0.0).to_bits(), (-0.0_f64).to_bits());
        assert_eq!(erf_f32(-0.0).to_bits(), (-0.0_f32).to_bits());
        assert!(erf_f64(f64::NAN).is_nan() && erfc_f64(f64::NAN).is_nan());
        assert!(erf_f32(f32::NAN).is_nan() && erfc_f32(f32::NAN).is_nan());
    }
}
