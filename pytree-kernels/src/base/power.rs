//! Powers of floats. The functions contain no branches, as those of `elementary.rs`.
//!
//! A power is e^(y·log x). Its relative error is the absolute error of y·log x, which is up to 745. So the logarithm has more digits
//! than the power: for f32 it is an f64, and for f64 it is the sum of two f64 (Dekker, "A floating-point technique for extending the
//! available precision", 1971).

#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    reason = "coefficients are written as they were computed"
)]
#![allow(clippy::float_cmp, reason = "only single numbers are special cases")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "an exponent is small, and the power of f32 numbers is rounded"
)]

use super::elementary::{Steps, exp_rest_f32, polynomial};
use super::fma::Fma;

/// Floats that have powers.
pub(crate) trait Power: Sized {
    /// Returns the number to the power of the exponent, with the special cases of C's `pow`.
    fn power(self, exponent: Self) -> Self;
}

/// 1.5·2⁵². Adding this number rounds to an integer, which is in the low bits of the sum.
const ROUND: f64 = 6755399441055744.0;

/// ln 2 as a sum. The product of the first part and an exponent is exact.
const LN_2: [f64; 2] = [6.93147180369123816490e-01, 1.90821492927058770002e-10];

/// 1/3 as a sum.
const THIRD: [f64; 2] = [0.333333333333333314830, 1.850371707708594e-17];

/// Returns the logarithm of a positive number, of 0, or of NaN, if `logarithm` is that of a positive finite number.
#[inline(always)]
fn extended(x: f64, logarithm: f64) -> f64 {
    let y = if x < f64::INFINITY { logarithm } else { x };
    if x == 0.0 { f64::NEG_INFINITY } else { y }
}

/// Computes the power with log₂ x = e + 2·artanh(s)/ln 2 for x = 2ᵉ·m and s = (m - 1)/(m + 1).
#[inline(always)]
fn magnitude_f32(x: f32, exponent: f32) -> f32 {
    let x = f64::from(x);
    let (e, m) = x.split();
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let rest = z
        * polynomial!(
            z;
            0.33333332916365307021, 0.2000015104221752201, 0.14269532327231463596, 0.11776620308810170937
        );
    let of_m = s * (2.0 * std::f64::consts::LOG2_E);
    let logarithm = extended(x, of_m.fma(rest, of_m + f64::from(e as i32)));
    let product = f64::from(exponent) * logarithm;
    // Powers outside of the limits are 0 or infinite.
    let product = if product > 200.0 { 200.0 } else { product };
    let product = if product < -200.0 { -200.0 } else { product };
    let shifted = product + ROUND;
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    let r = (product - (shifted - ROUND)) * std::f64::consts::LN_2;
    let exponential = 1.0 + (r + r * r * exp_rest_f32!(r));
    (exponential * f64::power_of_two(n.cast_signed())) as f32
}

/// Computes the power with log x = e·ln 2 + 2·artanh(s). The names of lower parts of sums end with `low`.
#[inline(always)]
fn magnitude_f64(x: f64, exponent: f64) -> f64 {
    let is_subnormal = x < f64::MIN_POSITIVE;
    let (e, m) = (if is_subnormal { x * 2_f64.powi(54) } else { x }).split();
    let e = f64::from(e as i32) - if is_subnormal { 54.0 } else { 0.0 };

    let (numerator, denominator) = (m - 1.0, m + 1.0);
    let denominator_low = (1.0 - denominator) + m;
    let inverse = 1.0 / denominator;
    let s = numerator * inverse;
    let s_low = (s.fma(-denominator, numerator) - s * denominator_low) * inverse;
    let z = s * s;
    let z_low = s.fma(s, -z) + 2.0 * s * s_low;
    // artanh(s) = s + s·z·(1/3 + z·p(z)), where z is so small that the rounding error of z·p(z) does not matter.
    let rest = z * polynomial!(
        z;
        0.20000000000000197464, 0.1428571428545391887, 0.11111111193837898498,
        0.090908975349900405174, 0.076931489934659621732, 0.066334216256187645496,
        0.065543372607510777066
    );
    let factor = THIRD[0] + rest;
    let factor_low = (THIRD[0] - factor) + rest + THIRD[1];
    let square = z * factor;
    let square_low = z.fma(factor, -square) + (z * factor_low + z_low * factor);
    let cube = s * square;
    let cube_low = s.fma(square, -cube) + (s * square_low + s_low * square);
    let sum = s + cube;
    let sum_low = (s - sum) + cube + (s_low + cube_low);

    let (of_power, of_m) = (e * LN_2[0], 2.0 * sum);
    let sum = of_power + of_m;
    let sum_low = (of_power - sum) + of_m + e.fma(LN_2[1], 2.0 * sum_low);
    let logarithm = sum + sum_low;
    let logarithm_low = (sum - logarithm) + sum_low;
    let logarithm = extended(x, logarithm);

    let product = exponent * logarithm;
    let product_low = exponent.fma(logarithm, -product) + exponent * logarithm_low;
    // A greater product may be infinite.
    let product_low = if product.abs() < 1000.0 {
        product_low
    } else {
        0.0
    };
    let (n, r, error, rest) = product.exp_parts();
    let sum = 1.0 + r;
    let sum_low = (1.0 - sum) + r + ((sum + rest).fma(product_low, error) + rest);
    (sum + sum_low).times_power_of_two(n)
}

macro_rules! power {
    ($float:ident, $magnitude:ident) => {
        impl Power for $float {
            #[inline(always)]
            fn power(self, exponent: Self) -> Self {
                let power = $magnitude(self.abs(), exponent);
                let half = 0.5 * exponent;
                let is_integer = exponent == exponent.floor();
                let is_odd = is_integer && half != half.floor();
                let power = if is_odd { power.copysign(self) } else { power };
                let is_negative = self < 0.0 && self > Self::NEG_INFINITY;
                let power = if is_negative && !is_integer {
                    Self::NAN
                } else {
                    power
                };
                let is_infinite = exponent.abs() == Self::INFINITY;
                let is_one = self == 1.0 || exponent == 0.0 || is_infinite && self == -1.0;
                if is_one { 1.0 } else { power }
            }
        }
    };
}
power!(f32, magnitude_f32);
power!(f64, magnitude_f64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::elementary::tests::distance_f32;

    /// Numbers of which some powers are special cases, or exact.
    const SPECIAL: [f64; 16] = [
        0.0,
        1.0,
        0.5,
        2.0,
        2.5,
        3.0,
        9.0,
        1.0 / 3.0,
        1e-30,
        1e-300,
        1.0 + 1.0 / 1_048_576.0,
        16_777_215.0,
        9_007_199_254_740_991.0,
        1e30,
        f64::INFINITY,
        f64::NAN,
    ];

    fn check(base: f64, exponent: f64) {
        let (x, y) = (base as f32, exponent as f32);
        let (found, exact) = (x.power(y), f64::from(x).powf(f64::from(y)));
        let off = distance_f32(found, exact);
        assert!(
            off <= 0.52,
            "{x:e} to the power of {y:e} is {found:e}, not {exact:e}"
        );
        let (found, exact) = (base.power(exponent), base.powf(exponent));
        let steps = found.to_bits().abs_diff(exact.to_bits());
        assert!(
            steps <= 1 || found.is_nan() && exact.is_nan(),
            "{base:e} to the power of {exponent:e} is {found:e}, not {exact:e}"
        );
    }

    #[test]
    fn special_cases_are_those_of_c() {
        for base in SPECIAL.iter().flat_map(|&x| [x, -x]) {
            for exponent in SPECIAL.iter().flat_map(|&y| [y, -y]) {
                check(base, exponent);
            }
        }
    }

    #[test]
    fn powers_keep_their_last_digits() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let unit = |bits: u64| (bits >> 11) as f64 / 9_007_199_254_740_992.0;
        for _ in 0..200_000 {
            let (any, near, exponent) = (next(), unit(next()), unit(next()) - 0.5);
            check(4.0 * near, 80.0 * exponent);
            // The greatest exponents have powers that are neither 0 nor infinite.
            check(1.0 + near / 100.0, 1e5 * exponent);
            check(f64::from_bits(any >> 1), exponent);
        }
    }

    #[test]
    fn exact_powers_of_integers_are_exact() {
        for base in 1..100_i32 {
            for exponent in 0..7 {
                let exact = f64::from(base).powi(exponent);
                assert_eq!(f64::from(base).power(exponent.into()), exact);
                if exact < 16_777_216.0 {
                    assert_eq!(f64::from((base as f32).power(exponent as f32)), exact);
                }
            }
        }
    }
}
