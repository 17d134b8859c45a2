//! The inverse of the error function.
//!
//! The f32 version follows each step of XLA's CPU version, including its fused multiply-adds. So normal random numbers
//! have the same bits as in JAX.
#![allow(
    clippy::unreadable_literal,
    clippy::excessive_precision,
    clippy::approx_constant,
    reason = "coefficients stand as they were published"
)]
#![allow(clippy::float_cmp, reason = "only the ends themselves are infinite")]

use crate::base::elementary::Elementary;
use crate::base::fma::Fma;
use crate::base::special::polynomial::{polynomial_f32, polynomial_f64};

/// Computes the inverse of the error function (Giles, "Approximating the erfinv function", 2010). The result is
/// infinite at ±1, and NaN outside of [-1, 1].
#[inline(always)]
pub(crate) fn erf_inv_f32(x: f32) -> f32 {
    let w = -log1p_f32(-(x * x));
    // Both polynomials are computed: a choice of each coefficient would become a gather.
    let centre = polynomial_f32(w - 2.5, CENTRE_F32);
    let tail = polynomial_f32(w.sqrt() - 3.0, TAIL_F32);
    let factor = if w < 5.0 { centre } else { tail };
    x * if x.abs() == 1.0 {
        f32::INFINITY
    } else {
        factor
    }
}

/// Computes ln(1 + x) as XLA does on the CPU.
#[inline(always)]
fn log1p_f32(x: f32) -> f32 {
    let numerator = polynomial_f32(
        x,
        [
            4.527e-5,
            4.9854103e-1,
            6.5787325,
            2.9911919e1,
            6.094967e1,
            5.7112965e1,
            2.0039553e1,
        ],
    );
    let denominator = polynomial_f32(
        x,
        [
            1.0,
            1.5062909e1,
            8.304757e1,
            2.217624e2,
            3.0909872e2,
            2.1642789e2,
            6.011866e1,
        ],
    );
    let square = x * x;
    let cube = x * square;
    let near = x + square.fma(-0.5, cube * (numerator / denominator));
    if x.abs() >= 0.41421357 {
        log_f32(x + 1.0)
    } else {
        near
    }
}

/// Computes ln(x) as XLA does on the CPU, after Cephes' `logf`.
#[inline(always)]
fn log_f32(x: f32) -> f32 {
    let bits = x.max(f32::MIN_POSITIVE).to_bits();
    #[allow(clippy::cast_possible_wrap, reason = "nine bits are left of the 32")]
    let exponent = ((bits >> 23) as i32 - 126) as f32;
    let mantissa = f32::from_bits(bits & 0x807F_FFFF | 0x3F00_0000);
    let is_small = mantissa < std::f32::consts::FRAC_1_SQRT_2;
    let y = (mantissa - 1.0) + if is_small { mantissa } else { 0.0 };
    let exponent = exponent - if is_small { 1.0 } else { 0.0 };
    let square = y * y;
    let cube = square * y;
    let first = polynomial_f32(y, [7.0376836e-2, -1.151461e-1, 1.16769984e-1]);
    let second = polynomial_f32(y, [-1.2420141e-1, 1.4249323e-1, -1.6668057e-1]);
    let third = polynomial_f32(y, [2.0000714e-1, -2.4999994e-1, 3.333333e-1]);
    let rest = first
        .fma(cube, second)
        .fma(cube, third)
        .fma(cube, exponent * -2.1219444e-4);
    let fraction = (-square).fma(0.5, y) + rest;
    let y = exponent.fma(6.933594e-1, fraction);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// Returns whether the number is so far from ±1 that [`central_erf_inv_f64`] is accurate.
#[inline(always)]
pub(crate) fn is_central(x: f64) -> bool {
    x.abs() < 0.999
}

/// Computes the inverse of the error function of a central number.
#[inline(always)]
pub(crate) fn central_erf_inv_f64(x: f64) -> f64 {
    let w = -Elementary::log1p(-(x * x));
    polynomial_f64(w - 3.125, CENTRE) * x
}

/// Computes the inverse of the error function by Giles's polynomials for double precision.
pub(crate) fn erf_inv_f64(x: f64) -> f64 {
    if x.abs() == 1.0 {
        return x * f64::INFINITY;
    }
    let w = -Elementary::log1p(-(x * x));
    let factor = if w < 6.25 {
        polynomial_f64(w - 3.125, CENTRE)
    } else if w < 16.0 {
        polynomial_f64(w.sqrt() - 3.25, TAIL)
    } else {
        polynomial_f64(w.sqrt() - 5.0, FAR_TAIL)
    };
    factor * x
}

// The coefficients of the polynomials. The lowering to StableHLO also uses these coefficients.
/// The polynomial for the centre, in f32.
pub const CENTRE_F32: [f32; 9] = [
    2.8102264e-8,
    3.4327394e-7,
    -3.5233877e-6,
    -4.3915065e-6,
    2.1858087e-4,
    -1.253725e-3,
    -4.1776816e-3,
    2.4664073e-1,
    1.5014094,
];
/// The polynomial for the tails, in f32.
pub const TAIL_F32: [f32; 9] = [
    -2.0021426e-4,
    1.0095056e-4,
    1.3493432e-3,
    -3.6734284e-3,
    5.7395077e-3,
    -7.6224613e-3,
    9.4388705e-3,
    1.001674,
    2.8329768,
];
/// The polynomial for the centre, in f64.
pub const CENTRE: [f64; 23] = [
    -3.64441206401782e-21,
    -1.6850591381820166e-19,
    1.28584807152564e-18,
    1.1157877678025181e-17,
    -1.3331716628546209e-16,
    2.0972767875968562e-17,
    6.6376381343583238e-15,
    -4.0545662729752069e-14,
    -8.1519341976054722e-14,
    2.6335093153082323e-12,
    -1.2975133253453532e-11,
    -5.4154120542946279e-11,
    1.0512122733215323e-09,
    -4.1126339803469837e-09,
    -2.9070369957882005e-08,
    4.2347877827932404e-07,
    -1.3654692000834679e-06,
    -1.3882523362786469e-05,
    0.00018673420803405714,
    -0.000740702534166267,
    -0.0060336708714301491,
    0.24015818242558962,
    1.6536545626831027,
];
/// The polynomial for the tails, in f64.
pub const TAIL: [f64; 19] = [
    2.2137376921775787e-09,
    9.0756561938885391e-08,
    -2.7517406297064545e-07,
    1.8239629214389228e-08,
    1.5027403968909828e-06,
    -4.013867526981546e-06,
    2.9234449089955446e-06,
    1.2475304481671779e-05,
    -4.7318229009055734e-05,
    6.8284851459573175e-05,
    2.4031110387097894e-05,
    -0.00035503752036284748,
    0.0009532893797373805,
    -0.0016882755560235047,
    0.0024914420961078508,
    -0.0037512085075692412,
    0.0053709145535900636,
    1.0052589676941592,
    3.0838856104922208,
];
/// The polynomial for the far tails, in f64.
pub const FAR_TAIL: [f64; 17] = [
    -2.7109920616438573e-11,
    -2.5556418169965252e-10,
    1.5076572693500548e-09,
    -3.789465440126737e-09,
    7.61570120807834e-09,
    -1.496002662714924e-08,
    2.9147953450901081e-08,
    -6.7711997758452339e-08,
    2.2900482228026655e-07,
    -9.9298272942317e-07,
    4.5260625972231537e-06,
    -1.9681778105531671e-05,
    7.5995277030017761e-05,
    -0.00021503011930044477,
    -0.00013871931833623122,
    1.0103004648645344,
    4.8499064014085844,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_inv_is_infinite_at_ends() {
        assert_eq!(erf_inv_f32(1.0), f32::INFINITY);
        assert_eq!(erf_inv_f32(-1.0), f32::NEG_INFINITY);
        assert_eq!(erf_inv_f64(-1.0), f64::NEG_INFINITY);
        assert!(erf_inv_f32(1.5).is_nan());
        assert!(erf_inv_f64(-1.5).is_nan());
        assert!(erf_inv_f32(f32::NAN).is_nan());
    }
}
