//! Exponentials, logarithms and related functions. The functions contain no branches, so the compiler can vectorise
//! loops that call the functions.
//!
//! Each function reduces its argument to a small interval, evaluates a polynomial on this interval, and replaces the
//! result in special cases. `tools/fit_polynomials.py` computes the polynomials by minimax approximation. The tests
//! below check that results are within two units in the last place of the exact results.
//!
//! The functions do not use fused multiply-adds. Without hardware support, a fused multiply-add is a slow function
//! call. If only machines with hardware support used fused multiply-adds, results would depend on the machine.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    reason = "coefficients are written as they were computed"
)]

/// The elementary functions of `f32` and `f64`.
pub(crate) trait Elementary: Copy {
    /// Returns e to the power of the number.
    fn exp(self) -> Self;
    /// Returns the natural logarithm.
    fn log(self) -> Self;
    /// Returns the hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Returns 1 / (1 + e⁻ˣ).
    fn logistic(self) -> Self;
}

/// Computes `c[0] + c[1]·x + c[2]·x² + …` by Horner's rule.
macro_rules! polynomial {
    ($x:expr; $last:expr) => { $last };
    ($x:expr; $first:expr, $($rest:expr),+) => { $first + $x * polynomial!($x; $($rest),+) };
}

macro_rules! elementary {
    (
        $float:ident, $bits:ident, $signed:ident;
        mantissa $mantissa:literal, bias $bias:literal, round $round:literal;
        exp $exp_least:literal $exp_greatest:literal $exp:tt;
        ln2 $ln2_high:literal $ln2_low:literal;
        log $sqrt_half:literal $log:tt;
        tanh $tanh:tt;
    ) => {
        impl Elementary for $float {
            /// Computes eˣ as 2ⁿ·eʳ with |r| ≤ ln 2 / 2 and eʳ = 1 + r + r²·p(r) for a polynomial p.
            #[inline(always)]
            fn exp(self) -> Self {
                let x = if self > $exp_greatest { $exp_greatest } else { self };
                let x = if x < $exp_least { $exp_least } else { x };
                // Adding `$round`, which is 1.5·2^mantissa, rounds to an integer. The low bits of the sum are this
                // integer.
                let shifted = x * std::$float::consts::LOG2_E + $round;
                let n = shifted - $round;
                let integer = shifted.to_bits().wrapping_sub(Self::to_bits($round)).cast_signed();
                let r = (x - n * $ln2_high) - n * $ln2_low;
                let y = elementary!(@polynomial r; $exp);
                let y = 1.0 + (r + r * r * y);
                // Multiply by 2ⁿ in two steps, so that 2ⁿ itself is neither subnormal nor infinite.
                let half = integer >> 1;
                let power = |n: $signed| {
                    Self::from_bits((n.wrapping_add($bias) << $mantissa).cast_unsigned())
                };
                y * power(half) * power(integer.wrapping_sub(half))
            }

            /// Computes the logarithm of x = 2ᵉ·m with √½ ≤ m < √2 as e·ln 2 + log(1 + f), where f = m - 1. Computes
            /// log(1 + f) as 2·artanh(s) with s = f/(2 + f).
            #[inline(always)]
            fn log(self) -> Self {
                let two_to_mantissa = Self::from_bits(($bias + $mantissa) << $mantissa);
                let subnormal = self < Self::MIN_POSITIVE;
                let x = if subnormal { self * two_to_mantissa } else { self };
                let offset = x.to_bits().wrapping_sub($sqrt_half).cast_signed();
                let exponent = offset >> $mantissa;
                let exponent = if subnormal { exponent - $mantissa } else { exponent };
                let fraction = (offset & ((1 << $mantissa) - 1)).cast_unsigned();
                let f = Self::from_bits(fraction + $sqrt_half) - 1.0;
                let e = elementary!(@to_float exponent, $float);
                let s = f / (2.0 + f);
                let z = s * s;
                let remainder = z * elementary!(@polynomial z; $log);
                let half_square = 0.5 * f * f;
                let low = s * (half_square + remainder) + e * $ln2_low;
                let y = e * $ln2_high - ((half_square - low) - f);
                let y = if self == Self::INFINITY { self } else { y };
                let y = if self == 0.0 { Self::NEG_INFINITY } else { y };
                // The logarithm of a negative number or NaN is NaN.
                if self >= 0.0 { y } else { Self::NAN }
            }

            /// Computes tanh(x) as x + x³·p(x²) near zero, and as 1 − 2/(e²ˣ + 1) elsewhere.
            #[inline(always)]
            fn tanh(self) -> Self {
                let x = self.abs();
                let z = x * x;
                let near = x + x * z * elementary!(@polynomial z; $tanh);
                let far = 1.0 - 2.0 / (Elementary::exp(x + x) + 1.0);
                let y = if x < 0.625 { near } else { far };
                y.copysign(self)
            }

            /// Computes 1 / (1 + e⁻ˣ).
            #[inline(always)]
            fn logistic(self) -> Self {
                1.0 / (1.0 + Elementary::exp(-self))
            }
        }
    };
    (@polynomial $x:expr; [$($c:expr),+ $(,)?]) => { polynomial!($x; $($c),+) };
    (@to_float $x:expr, f32) => { $x as f32 };
    // Convert through i32, because every instruction set can convert i32 to f64.
    (@to_float $x:expr, f64) => {{
        #[allow(clippy::cast_possible_truncation, reason = "an exponent is small")]
        let small = $x as i32;
        f64::from(small)
    }};
}

elementary! {
    f32, u32, i32;
    mantissa 23, bias 127, round 12582912.0;
    exp -104.0 89.0 [
        0.50000000778970823748, 0.16666666861202482005, 0.041666269954132499217,
        0.0083332642313560894567, 0.0013946072798817605081, 0.00019918453244547079398,
    ];
    ln2 0.693359375 -2.12194440e-4;
    log 0x3f35_04f3 [
        0.66666665832730614042, 0.4000030208443504402, 0.28539064654462927191,
        0.23553240617620341875,
    ];
    tanh [
        -0.33333331675162829792, 0.13333233288723898469, -0.053949684981077419598,
        0.021714755320382921164, -0.0082086066089784345213, 0.0021690374321201385239,
    ];
}

elementary! {
    f64, u64, i64;
    mantissa 52, bias 1023, round 6755399441055744.0;
    exp -746.0 710.0 [
        0.49999999999999999972, 0.16666666666666666659, 0.041666666666666712643,
        0.0083333333333333412538, 0.0013888888888864045644, 0.00019841269841237532001,
        0.000024801587363233258378, 2.7557319288482343901e-6, 2.7557241938214135376e-7,
        2.5052040603644678732e-8, 2.0924395443302232002e-9, 1.6095087314654120419e-10,
    ];
    ln2 6.93147180369123816490e-01 1.90821492927058770002e-10;
    log 0x3fe6_a09e_667f_3bcd [
        0.66666666666666664484, 0.40000000000003670802, 0.28571428569758053227,
        0.2222222256122285922, 0.18181781600856463624, 0.15386861613421105524,
        0.13254745354695118995, 0.13213221485621902765,
    ];
    tanh [
        -0.33333333333333333162, 0.13333333333333263886, -0.053968253968187566839,
        0.021869488533322403483, -0.0088632354624584620065, 0.0035921270348116482075,
        -0.0014558245011603357821, 0.00058996023599493657314, -0.00023880858968349712463,
        0.000095838712009155220898, -0.000036756950222113267041, 0.000011909562239875811542,
        -2.316331836597672165e-6,
    ];
}

/// Computes erf(x) of an f32 as x·p(x²) near zero, and as 1 − e^−q(x) elsewhere, for polynomials p and q.
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
    let far = 1.0 - Elementary::exp(-q);
    let y = if operand.abs() < 1.0 { near } else { far };
    y.copysign(operand)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns sample floats of all magnitudes and both signs, and the special values.
    fn samples() -> impl Iterator<Item = f32> {
        (0..=u32::MAX)
            .step_by(9973)
            .map(f32::from_bits)
            .chain([
                0.0,
                -0.0,
                1.0,
                -1.0,
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::NAN,
            ])
            .chain((-4000..4000).map(|n| n as f32 / 40.0))
    }

    /// Returns the distance between two floats, in units in the last place of f32.
    fn distance_f32(left: f32, right: f64) -> f64 {
        #[allow(clippy::cast_possible_truncation, reason = "rounding is meant")]
        let nearest = right as f32;
        if (left.is_nan() && right.is_nan()) || left.to_bits() == nearest.to_bits() {
            return 0.0;
        }
        if !left.is_finite() || !nearest.is_finite() {
            return f64::INFINITY;
        }
        let unit =
            f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
        (f64::from(left) - right).abs() / unit
    }

    fn check_f32(name: &str, found: fn(f32) -> f32, exact: fn(f64) -> f64, allowed: f64) {
        for x in samples() {
            let distance = distance_f32(found(x), exact(f64::from(x)));
            assert!(
                distance <= allowed,
                "{name}({x}) is {}, {distance} units from {}",
                found(x),
                exact(f64::from(x))
            );
        }
    }

    fn check_f64(name: &str, found: fn(f64) -> f64, exact: fn(f64) -> f64) {
        for x in samples() {
            for x in [
                f64::from(x),
                f64::from(x) * 1.000_000_013,
                f64::from_bits(u64::from(x.to_bits()) << 32),
            ] {
                let (found, exact) = (found(x), exact(x));
                let same = (found.is_nan() && exact.is_nan()) || found.to_bits() == exact.to_bits();
                let steps = found.to_bits().abs_diff(exact.to_bits());
                assert!(
                    same || (found.is_finite() && exact.is_finite() && steps <= 3),
                    "{name}({x:e}) is {found:e}, {steps} units from {exact:e}"
                );
            }
        }
    }

    #[test]
    fn f32_is_within_two_units() {
        check_f32("exp", Elementary::exp, f64::exp, 2.0);
        check_f32("log", Elementary::log, f64::ln, 2.0);
        check_f32("tanh", Elementary::tanh, f64::tanh, 2.0);
    }

    #[test]
    fn f64_is_within_three_units_of_libm() {
        check_f64("exp", Elementary::exp, f64::exp);
        check_f64("log", Elementary::log, f64::ln);
        check_f64("tanh", Elementary::tanh, f64::tanh);
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
}
