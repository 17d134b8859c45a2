//! Sine, cosine, tangent, and their inverses. The functions of numbers up to [`LIMIT`] contain no branches, so the compiler can vectorise
//! loops that call them. The functions of all numbers are those of the crate `libm`, so results are equal on all machines.
//!
//! Arguments are reduced to r = x - n·π/2 with |r| ≤ π/4 (Cody and Waite, "Software manual for the elementary functions",
//! 1980), where n·π/2 is a sum of products, of which only the last one rounds. An f32 is computed in double precision.

#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    reason = "coefficients are written as they were computed"
)]

use crate::base::elementary::polynomial;

/// The greatest magnitude of the numbers for which the fast functions are accurate.
const LIMIT: f64 = 1e6;

/// 1.5·2⁵². Adding this number rounds to an integer, which is in the low bits of the sum.
const ROUND: f64 = 6755399441055744.0;

/// The parts of π/2. The first three have 33 bits, so their products with n are exact.
const HALF_PI: [f64; 4] = [
    f64::from_bits(0x3ff9_21fb_5440_0000),
    f64::from_bits(0x3dd0_b461_1a60_0000),
    f64::from_bits(0x3ba3_198a_2e00_0000),
    f64::from_bits(0x397b_839a_2520_49c1),
];

/// The trigonometric functions of `f32` and `f64`.
pub(crate) trait Angle: Copy {
    /// Returns whether the fast functions are accurate for the number.
    fn is_small(self) -> bool;
    /// Returns the sine of a small number.
    fn sin(self) -> Self;
    /// Returns the cosine of a small number.
    fn cos(self) -> Self;
    /// Returns the tangent of a small number.
    fn tan(self) -> Self;
    /// Returns the angle with a sine.
    fn asin(self) -> Self;
    /// Returns the angle with a cosine.
    fn acos(self) -> Self;
    /// Returns the arctangent of any number.
    fn atan(self) -> Self;
    /// Returns the sine of any number.
    fn slow_sin(self) -> Self;
    /// Returns the cosine of any number.
    fn slow_cos(self) -> Self;
    /// Returns the tangent of any number.
    fn slow_tan(self) -> Self;
}

/// The step that the arcsine and the arccosine share.
trait ArcSine: Sized {
    /// Returns whether |x| is at most ½, a number s, and asin(s) - s. The number s is |x|, or √((1 - |x|)/2) for a greater |x|, of which
    /// the arccosine is 2·asin(s).
    fn asin_parts(self) -> (bool, Self, Self);
}

/// Returns n, r, and the rounding error of r, such that x = n·π/2 + r + error. The lowest bits of n are those of the
/// integer.
#[inline(always)]
fn reduced(x: f64) -> (u64, f64, f64) {
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    let first = x - n * HALF_PI[0];
    let product = n * HALF_PI[1];
    let second = first - product;
    let error = (first - second) - product;
    let product = n * HALF_PI[2];
    let third = second - product;
    let error = ((second - third) - product) + error;
    let rest = n * HALF_PI[3] - error;
    let r = third - rest;
    (shifted.to_bits(), r, (third - r) - rest)
}

/// Returns the number with the opposite sign if the second bit of `n` is set.
#[inline(always)]
fn with_sign(value: f64, n: u64) -> f64 {
    f64::from_bits(value.to_bits() ^ ((n & 2) << 62))
}

/// Returns n, and the sine and the cosine of r, such that x = n·π/2 + r.
#[inline(always)]
fn parts_f64(x: f64) -> (u64, f64, f64) {
    let (n, r, error) = reduced(x);
    let z = r * r;
    let half = 0.5 * z;
    let rest = polynomial!(
        z;
        -0.16666666666666639184, 0.0083333333333237747486, -0.00019841269830705026913,
        2.7557313959374695053e-6, -2.5050795105803823435e-8, 1.5898726596225419383e-10
    );
    // This order keeps the sign of a zero.
    let sin = r - ((half * error - error) - r * z * rest);
    let rest = polynomial!(
        z;
        0.041666666666666656859, -0.0013888888888883363207, 0.000024801587294868211792,
        -2.7557315812326255573e-7, 2.0875910436325627848e-9, -1.1368829237264390519e-11
    );
    let whole = 1.0 - half;
    let cos = whole + (((1.0 - whole) - half) + (z * z * rest - r * error));
    (n, sin, cos)
}

/// Returns the same with the accuracy of f32.
#[inline(always)]
fn parts_f32(x: f32) -> (u64, f64, f64) {
    let x = f64::from(x);
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * HALF_PI[0]) - n * (HALF_PI[1] + HALF_PI[2]);
    let z = r * r;
    let rest = polynomial!(
        z;
        -0.16666655515590537671, 0.0083322047125814419597, -0.00019520169949255098441
    );
    let sin = r * (1.0 + z * rest);
    let rest = polynomial!(
        z;
        0.041666652316307495006, -0.0013887592841783874717, 0.000024460956666043353735
    );
    (shifted.to_bits(), sin, 1.0 - z * (0.5 - z * rest))
}

macro_rules! angle {
    (
        $float:ident, $parts:ident, $quarter_low:literal;
        asin [$($asin:literal),+ $(,)?];
        atan [$($coefficient:literal),+ $(,)?];
    ) => {
        impl ArcSine for $float {
            #[inline(always)]
            fn asin_parts(self) -> (bool, Self, Self) {
                let x = self.abs();
                let is_near = x <= 0.5;
                // The difference is exact, because x is at least 0.5.
                let z = if is_near { x * x } else { 0.5 - 0.5 * x };
                let s = if is_near { x } else { z.sqrt() };
                (is_near, s, s * z * polynomial!(z; $($asin),+))
            }
        }

        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_lossless,
            reason = "the result is rounded, and an f64 stays the same"
        )]
        impl Angle for $float {
            #[inline(always)]
            fn is_small(self) -> bool {
                self.abs() <= LIMIT as Self
            }

            #[inline(always)]
            fn sin(self) -> Self {
                let (n, sin, cos) = $parts(self);
                with_sign(if n & 1 == 0 { sin } else { cos }, n) as Self
            }

            #[inline(always)]
            fn cos(self) -> Self {
                let (n, sin, cos) = $parts(self);
                with_sign(if n & 1 == 0 { cos } else { sin }, n.wrapping_add(n & 1)) as Self
            }

            #[inline(always)]
            fn tan(self) -> Self {
                let (n, sin, cos) = $parts(self);
                let is_even = n & 1 == 0;
                ((if is_even { sin } else { -cos }) / (if is_even { cos } else { sin })) as Self
            }

            #[inline(always)]
            fn asin(self) -> Self {
                let (is_near, s, rest) = self.asin_parts();
                // The difference is rounded, and would lose a digit of the result.
                let quarter = std::$float::consts::FRAC_PI_4;
                let difference = quarter - s;
                let error = (quarter - difference) - s;
                let far = difference - (rest - ($quarter_low + error));
                (if is_near { s + rest } else { far + far }).copysign(self)
            }

            #[inline(always)]
            fn acos(self) -> Self {
                let (is_near, s, rest) = self.asin_parts();
                let is_reflected = is_near && self < 0.0;
                let (term, low) = if is_reflected { (-s, -rest) } else { (s, rest) };
                let complement = std::$float::consts::FRAC_PI_2 - (term + (low - 2.0 * $quarter_low));
                let half = if self > 0.0 { s + rest } else { complement };
                if is_near { complement } else { half + half }
            }

            /// Reduces x to t with |t| ≤ tan(π/8), so that the result is the sum of atan(t) and 0, 1 or 2 times π/4.
            #[inline(always)]
            fn atan(self) -> Self {
                let x = self.abs();
                let is_large = x > 2.41421356237309504880;
                let is_middle = x > 0.41421356237309504880;
                let numerator = if is_middle { x - 1.0 } else { x };
                let denominator = if is_middle { x + 1.0 } else { 1.0 };
                let quarters = if is_middle { 1.0 } else { 0.0 };
                let numerator = if is_large { -1.0 } else { numerator };
                let denominator = if is_large { x } else { denominator };
                let quarters = if is_large { 2.0 } else { quarters };
                let t = numerator / denominator;
                let z = t * t;
                let rest = t * z * polynomial!(z; $($coefficient),+) + quarters * $quarter_low;
                (quarters * std::$float::consts::FRAC_PI_4 + (t + rest)).copysign(self)
            }

            fn slow_sin(self) -> Self {
                libm::sin(self as f64) as Self
            }

            fn slow_cos(self) -> Self {
                libm::cos(self as f64) as Self
            }

            fn slow_tan(self) -> Self {
                libm::tan(self as f64) as Self
            }
        }
    };
}
angle!(
    f32, parts_f32, -2.18556941e-8;
    asin [
        0.16666724606426853736, 0.074962075064581180887, 0.045372338507089430321,
        0.024609724435995966492, 0.041502266292430209674,
    ];
    atan [
        -0.33333323944361824731,
        0.19998909004087653904,
        -0.14250640332633946773,
        0.10640417713076900986,
        -0.06185103540327991482,
    ];
);
angle!(
    f64, parts_f64, 3.0616169978683830e-17;
    asin [
        0.16666666666666458294, 0.075000000001215474062, 0.044642856985939128631,
        0.03038195328408466059, 0.022371886010616535163, 0.017357927852538887757,
        0.013901527735153240023, 0.012069245975768027465, 0.0069343056043310920791,
        0.018478072110002835832, -0.014661273782337400696, 0.030892428431129176686,
    ];
    atan [
        -0.33333333333333313821,
        0.19999999999984159152,
        -0.14285714283014955623,
        0.1111111091353073623,
        -0.090909012363145567363,
        0.076921181328222429367,
        -0.06663723642544362096,
        0.058521519788628639305,
        -0.050575383441796355097,
        0.038505894506802772068,
        -0.018369063218234151499,
    ];
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::elementary::tests::{check_f32, check_f64, distance_f32};

    /// The bits of the numbers up to 1 have equal distances.
    #[test]
    fn arcs_keep_their_last_digits() {
        for x in (0..=1_f32.to_bits()).step_by(997).map(f32::from_bits) {
            for x in [x, -x] {
                let exact = f64::from(x);
                for (found, exact) in [
                    (Angle::asin(x), exact.asin()),
                    (Angle::acos(x), exact.acos()),
                ] {
                    let off = distance_f32(found, exact);
                    assert!(off <= 1.3, "{x:e}: {found:e}, {off} units from {exact:e}");
                }
            }
        }
    }

    fn checked<T: Angle>(fast: fn(T) -> T, slow: fn(T) -> T) -> impl Fn(T) -> T {
        move |x| if x.is_small() { fast(x) } else { slow(x) }
    }

    #[test]
    fn f32_is_within_two_units() {
        check_f32("sin", checked(Angle::sin, Angle::slow_sin), f64::sin, 1.0);
        check_f32("cos", checked(Angle::cos, Angle::slow_cos), f64::cos, 1.0);
        check_f32("asin", Angle::asin, f64::asin, 2.0);
        check_f32("acos", Angle::acos, f64::acos, 2.0);
        check_f32("atan", Angle::atan, f64::atan, 2.0);
        check_f32("tan", checked(Angle::tan, Angle::slow_tan), f64::tan, 1.0);
    }

    #[test]
    fn f64_is_within_three_units_of_libm() {
        check_f64("sin", checked(Angle::sin, Angle::slow_sin), f64::sin);
        check_f64("cos", checked(Angle::cos, Angle::slow_cos), f64::cos);
        check_f64("asin", Angle::asin, f64::asin);
        check_f64("acos", Angle::acos, f64::acos);
        check_f64("atan", Angle::atan, f64::atan);
        check_f64("tan", checked(Angle::tan, Angle::slow_tan), f64::tan);
    }

    /// The nearest f64 to a multiple of π/2 with a quotient of twenty bits leaves the smallest r.
    #[test]
    fn multiples_of_half_pi_keep_all_digits() {
        for n in 1..600_000 {
            let x = f64::from(n) * std::f64::consts::FRAC_PI_2;
            let (found, exact) = (Angle::sin(x), libm::sin(x));
            let steps = found.to_bits().abs_diff(exact.to_bits());
            assert!(steps <= 2, "sin({x:e}) is {found:e}, not {exact:e}");
        }
    }
}
