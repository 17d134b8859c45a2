//! The error function erf(x), and the complementary error function 1 - erf(x). The functions contain no branches, as those of
//! `elementary.rs`.
//!
//! Far from zero, e^(x²)·(1 - erf(x)) is a polynomial p(t) of t = (x - k)/(x + k) (Schonfelder, "Chebyshev expansions for the error
//! and related functions", 1978). `pytree-kernels/tools/fit_polynomials.py` computes the polynomials.
#![allow(
    clippy::unreadable_literal,
    clippy::excessive_precision,
    clippy::approx_constant,
    reason = "coefficients are written as they were computed"
)]

use crate::base::elementary::{Elementary, Steps, polynomial};
use crate::base::fma::Fma;

/// Computes erf(x) as x·p(x²) near zero, and as 1 - e^(-x²)·p(t) elsewhere.
#[inline(always)]
pub(crate) fn erf_f64(operand: f64) -> f64 {
    let x = operand.abs();
    let z = x * x;
    let near = x * polynomial!(
        z;
        1.1283791670955125668, -0.37612638903183546562, 0.11283791670945250661,
        -0.026866170643275861071, 0.0052239776074209764466, -0.00085483259895960819796,
        0.00012055295317965038181, -0.000014924744622595193252, 1.6447517256998921913e-6,
        -1.6209173217716394194e-7, 1.3722966550069167343e-8, -7.8011738070914079439e-10
    );
    // For all greater x, the result rounds to 1.
    let limited = if x > 6.0 { 6.0 } else { x };
    let t = (limited - 3.0) / (limited + 3.0);
    let factor = polynomial!(
        t;
        0.1790011511813537929, -0.32623356004590117728, 0.24560380166429913707,
        -0.15011593634404950226, 0.071665850124511681241, -0.024392327929216107792,
        0.0042703535272634652122, 0.00071317437122470869671, -0.00058109417574717130018,
        0.000076391355683110961259, 0.00010294979126281812258, 0.000015202614401261606316
    );
    let far = 1.0 - factor * Steps::exp_of_moderate(-(limited * limited));
    let y = if x < 1.0 { near } else { far };
    y.copysign(operand)
}

/// Computes 1 - erf(x) as e^(-x²)·p(t)/(1 + 2x), where p(t) is nearly constant, so that no digits cancel. The result is accurate even if
/// erf(x) is near 1.
#[inline(always)]
pub(crate) fn erfc_f64(operand: f64) -> f64 {
    let x = operand.abs();
    // For all greater x, the result rounds to 0.
    let x = if x > 27.3 { 27.3 } else { x };
    let t = (x - 4.0) / (x + 4.0);
    let factor = polynomial!(
        t;
        1.2329951186255525088, -0.13962111684056285723, 0.015379652102620140441,
        0.068097054254733505016, -0.10103906603632361274, 0.093732834996915894577,
        -0.0663303658120371553, 0.037167515560681822761, -0.016197734054745360056,
        0.0050319697707574558491, -0.00075777336122993780234, -0.00019925558016867831861,
        0.00015062228922638119182, -0.000024402952355831633588, -0.000011224818804595307589,
        5.7174966864656995944e-6, 3.0126878709421676192e-7, -8.3476563876025570072e-7,
        6.2892292378258005786e-8, 1.1516151059963354077e-7, -7.8433806427859819921e-9,
        -1.3650912887187821431e-8, -1.8003104593285702185e-9
    ) / (1.0 + 2.0 * x);
    // The exponential would magnify the rounding error of x². So x² is computed as h² + (x - h)·(x + h), where h has the upper digits
    // of x, so that h² is exact. The second term is so small that three terms of its exponential suffice.
    let high = f64::from_bits(x.to_bits() & 0xffff_ffff_f800_0000);
    let low = (x - high) * (x + high);
    let exponential = Elementary::exp(-(high * high));
    let correction = low * (1.0 - low * (0.5 - low * (1.0 / 6.0)));
    let value = factor * (exponential - correction * exponential);
    if operand < 0.0 { 2.0 - value } else { value }
}

/// Computes erf(x) of an f32 as x·p(x²) near zero, and as 1 − e^−q(x) elsewhere, for polynomials p and q. The error is at most 2.5 units
/// in the last place.
#[inline(always)]
pub(crate) fn erf_f32(operand: f32) -> f32 {
    let x = operand.abs();
    let z = x * x;
    let near = x * polynomial!(
        z;
        1.1283791659140139371, -0.37612627134100350939, 0.11283600150754291806,
        -0.026854443504302840868, 0.0051895332873710504114, -0.00080208234618430489673,
        0.000078890613776255683714
    );
    let x = if x > 4.0 { 4.0 } else { x };
    let q = polynomial!(
        x;
        -0.00018803515181415795001, 1.1295784018291642281, 0.6332199348086247744,
        0.10841853502721102603, -0.025208231477891406011, 0.0042045529934884724618,
        -0.00044133467469317907058, 0.00002168671262220952353
    );
    let far = 1.0 - Steps::exp_of_moderate(-q);
    let y = if operand.abs() < 1.0 { near } else { far };
    y.copysign(operand)
}

/// Computes 1 - erf(x) of an f32 as e^(-x²)·u·p(u) with u = 1/(1 + x/3). All steps have double precision, because the exponential would
/// magnify the rounding error of x².
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the result is rounded")]
pub(crate) fn erfc_f32(operand: f32) -> f32 {
    let x = operand.abs();
    // For all greater x, the result rounds to 0.
    let x = if x > 10.1 { 10.1 } else { x };
    // A step of Newton's method doubles the digits of the quotient, in less time than a division of f64 numbers.
    let near = f64::from(1.0 / (1.0 + x * (1.0 / 3.0)));
    let x = f64::from(x);
    let u = near.fma(x.fma(1.0 / 3.0, 1.0).fma(-near, 1.0), near);
    let factor = u * polynomial!(
        u;
        0.18803599156295351928, 0.18868076962050081894, 0.17147363229621400242,
        0.19190810810164281538, -0.0012308922072747327494, 0.40222583017964433843,
        -0.43964149271228525271, 0.53458557936098014805, -0.29166722103182485253,
        0.055629692822913210129
    );
    // As in `exp`, but 2ⁿ·eʳ is always a normal number, so n is added to the bits of its exponent.
    let square = x * x;
    let shifted = square.fma(-std::f64::consts::LOG2_E, 6755399441055744.0);
    let r = (6755399441055744.0 - shifted).fma(std::f64::consts::LN_2, -square);
    let exponential = polynomial!(
        r;
        1.0000000005583717886, 1.0000000365345654711, 0.49999992035502248467,
        0.16666419204446846782, 0.04166823099187284287, 0.0083748975795512180098,
        0.0013836789305359993894
    );
    let bits = (factor * exponential).to_bits();
    let value = f64::from_bits(bits.wrapping_add(shifted.to_bits() << 52));
    (if operand < 0.0 { 2.0 - value } else { value }) as f32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "only the ends themselves are exact")]

    use super::*;
    use crate::base::elementary::tests::{check_f32, distance_f32};

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

    #[test]
    fn erf_has_known_values() {
        // Expected values from Abramowitz and Stegun, table 7.1.
        let table = [
            (0.0, 0.0),
            (0.5, 0.520_499_877_8),
            (1.0, 0.842_700_792_9),
            (1.5, 0.966_105_146_5),
            (2.0, 0.995_322_265_0),
            (3.0, 0.999_977_909_5),
            (9.0, 1.0),
        ];
        for (x, exact) in table {
            assert!(distance_f32(erf_f32(x), exact) <= 2.0, "{x}");
            assert!(distance_f32(erf_f32(-x), -exact) <= 2.0, "-{x}");
        }
        assert!(erf_f32(f32::NAN).is_nan());
    }

    #[test]
    fn f32_is_within_two_units_and_a_half() {
        check_f32("erf", erf_f32, erf_f64, 2.5);
        check_f32("erfc", erfc_f32, erfc_f64, 0.6);
    }
}
