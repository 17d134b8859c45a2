//! Exponentials, logarithms and related functions. The functions contain no branches, so the compiler can vectorise
//! loops that call the functions.
//!
//! Each function reduces its argument to a small interval, evaluates a polynomial on this interval, and replaces the
//! result in special cases. `pytree-kernels/tools/fit_polynomials.py` computes the polynomials by minimax
//! approximation. The tests below check that results of f32 are within two units in the last place of the exact results,
//! and those of f64 within three units of the results of the standard library.
//!
//! The functions use [fused multiply-adds](super::fma), which round equally on every machine. They halve the time of a polynomial.

#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    reason = "coefficients are written as they were computed"
)]
#![allow(
    clippy::float_cmp,
    reason = "only the ends of a domain are special cases"
)]

use super::fma::Fma;

/// The elementary functions of `f32` and `f64`.
pub(crate) trait Elementary: Copy {
    /// Returns e to the power of the number.
    fn exp(self) -> Self;
    /// Returns 2 to the power of the number.
    fn exp2(self) -> Self;
    /// Returns eˣ - 1, which keeps all digits near 0.
    fn expm1(self) -> Self;
    /// Returns the natural logarithm.
    fn log(self) -> Self;
    /// Returns the natural logarithm of 1 + x, which keeps all digits near 0.
    fn log1p(self) -> Self;
    /// Returns 1 / √x for a positive normal number.
    fn rsqrt(self) -> Self;
    /// Returns the hyperbolic sine.
    fn sinh(self) -> Self;
    /// Returns the hyperbolic cosine.
    fn cosh(self) -> Self;
    /// Returns the hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Returns the inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// Returns the inverse hyperbolic cosine.
    fn acosh(self) -> Self;
    /// Returns the inverse hyperbolic tangent.
    fn atanh(self) -> Self;
    /// Returns 1 / (1 + e⁻ˣ).
    fn logistic(self) -> Self;
    /// Returns log(eˣ + eʸ).
    fn log_add_exp(self, other: Self) -> Self;
    /// Returns the greater number, or NaN if either is NaN. 0 is greater than -0.
    fn greater(self, other: Self) -> Self;
    /// Returns the less number, or NaN if either is NaN. -0 is less than 0.
    fn less(self, other: Self) -> Self;
}

/// The steps that several elementary functions share.
pub(crate) trait Steps: Sized {
    /// Signed integers with as many bits as the float.
    type Integer;
    /// Returns 2ⁿ, which must be a normal number.
    fn power_of_two(n: Self::Integer) -> Self;
    /// Returns n, r, the rounding error of r, and eʳ - 1 - r, such that x = n·ln 2 + r with |r| ≤ ln 2 / 2, for an x whose
    /// exponential is a normal number.
    fn parts_of_moderate(self) -> (Self::Integer, Self, Self, Self);
    /// Returns the same for an x that is reduced to an interval outside of which the exponential is 0 or infinite.
    fn exp_parts(self) -> (Self::Integer, Self, Self, Self);
    /// Returns 2ᵏ·eˣ for a small k.
    fn scaled_exp(self, k: Self::Integer) -> Self;
    /// Returns eˣ for an x whose exponential is a normal number.
    fn exp_of_moderate(self) -> Self;
    /// Returns 2ⁿ·x, where 2ⁿ may be infinite or less than all normal numbers.
    fn times_power_of_two(self, n: Self::Integer) -> Self;
    /// Returns e and m such that x = 2ᵉ·m with √½ ≤ m < √2, for a positive normal x.
    fn split(self) -> (Self::Integer, Self);
    /// Returns e and f such that 1 + x = 2ᵉ·(1 + f) with about √½ ≤ 1 + f < √2, for x ≥ -1.
    fn split_above_one(self) -> (Self::Integer, Self);
    /// Returns e·ln 2 + log(1 + f).
    fn log_of_parts(e: Self::Integer, f: Self) -> Self;
}

/// Computes `c[0] + c[1]·x + c[2]·x² + …` by Horner's rule.
macro_rules! polynomial {
    ($x:expr; $last:expr) => { $last };
    ($x:expr; $first:expr, $($rest:expr),+) => {
        $crate::base::fma::Fma::fma($x, $crate::base::elementary::polynomial!($x; $($rest),+), $first)
    };
}
pub(crate) use polynomial;

/// Computes p(r) in eʳ = 1 + r + r²·p(r), with the accuracy of f32.
macro_rules! exp_rest_f32 {
    ($r:expr) => {
        $crate::base::elementary::polynomial!(
            $r;
            0.50000000778970823748, 0.16666666861202482005, 0.041666269954132499217,
            0.0083332642313560894567, 0.0013946072798817605081, 0.00019918453244547079398
        )
    };
}
pub(crate) use exp_rest_f32;

macro_rules! elementary {
    (
        $float:ident, $bits:ident, $signed:ident;
        mantissa $mantissa:literal, bias $bias:literal, round $round:literal;
        exp $exp_least:literal $exp_greatest:literal $exp:tt;
        ln2 $ln2_high:literal $ln2_low:literal;
        log $sqrt_half:literal $log:tt;
        rsqrt $rsqrt:literal;
        sinh $sinh:tt;
        asinh $asinh:tt;
        atanh $atanh:tt;
    ) => {
        impl Steps for $float {
            type Integer = $signed;

            #[inline(always)]
            fn power_of_two(n: $signed) -> Self {
                Self::from_bits((n.wrapping_add($bias) << $mantissa).cast_unsigned())
            }

            #[inline(always)]
            fn exp_parts(self) -> ($signed, Self, Self, Self) {
                let x = if self > $exp_greatest { $exp_greatest } else { self };
                (if x < $exp_least { $exp_least } else { x }).parts_of_moderate()
            }

            /// Computes eʳ as 1 + r + r²·p(r) for a polynomial p.
            #[inline(always)]
            fn parts_of_moderate(self) -> ($signed, Self, Self, Self) {
                let x = self;
                // Adding `$round`, which is 1.5·2^mantissa, rounds to an integer. The low bits of the sum are this
                // integer.
                let shifted = x.fma(std::$float::consts::LOG2_E, $round);
                let n = shifted - $round;
                let integer = shifted.to_bits().wrapping_sub(Self::to_bits($round)).cast_signed();
                let high = n.fma(-$ln2_high, x);
                let r = n.fma(-$ln2_low, high);
                let error = n.fma(-$ln2_low, high - r);
                (integer, r, error, r * r * elementary!(@polynomial r; $exp))
            }

            #[inline(always)]
            fn scaled_exp(self, k: $signed) -> Self {
                let (n, r, _, rest) = self.exp_parts();
                (1.0 + (r + rest)).times_power_of_two(n.wrapping_add(k))
            }

            #[inline(always)]
            fn exp_of_moderate(self) -> Self {
                let (n, r, _, rest) = self.parts_of_moderate();
                (1.0 + (r + rest)) * Self::power_of_two(n)
            }

            /// Multiplies in two steps, so that no factor is subnormal or infinite.
            #[inline(always)]
            fn times_power_of_two(self, n: $signed) -> Self {
                let half = n >> 1;
                self * Self::power_of_two(half) * Self::power_of_two(n.wrapping_sub(half))
            }

            #[inline(always)]
            fn split(self) -> ($signed, Self) {
                let offset = self.to_bits().wrapping_sub($sqrt_half).cast_signed();
                let fraction = (offset & ((1 << $mantissa) - 1)).cast_unsigned();
                (offset >> $mantissa, Self::from_bits(fraction + $sqrt_half))
            }

            /// Computes f as x·2⁻ᵉ + (2⁻ᵉ - 1), where only the addition of the products rounds. The rounding error of
            /// 1 + x does not matter.
            #[inline(always)]
            fn split_above_one(self) -> ($signed, Self) {
                let (e, m) = (1.0 + self).split();
                let is_large = e > $mantissa + 2;
                let scale = Self::power_of_two(if is_large { 0 } else { -e });
                (e, if is_large { m - 1.0 } else { self * scale + (scale - 1.0) })
            }

            /// Computes log(1 + f) as 2·artanh(s) with s = f/(2 + f).
            #[inline(always)]
            fn log_of_parts(e: $signed, f: Self) -> Self {
                let e = elementary!(@to_float e, $float);
                let s = f / (2.0 + f);
                let z = s * s;
                let remainder = z * elementary!(@polynomial z; $log);
                let half_square = 0.5 * f * f;
                let low = s.fma(half_square + remainder, e * $ln2_low);
                e.fma($ln2_high, f - (half_square - low))
            }
        }

        impl Elementary for $float {
            #[inline(always)]
            fn exp(self) -> Self {
                self.scaled_exp(0)
            }

            /// Computes 2ⁿ·eʳ, where r is the product of x - n, which is exact, and ln 2.
            #[inline(always)]
            fn exp2(self) -> Self {
                #[allow(clippy::cast_lossless, reason = "a literal fits either type")]
                let greatest = (2 * $bias) as Self;
                let x = if self > greatest { greatest } else { self };
                let x = if x < -greatest { -greatest } else { x };
                let shifted = x + $round;
                let n = shifted.to_bits().wrapping_sub(Self::to_bits($round)).cast_signed();
                let r = (x - (shifted - $round)) * std::$float::consts::LN_2;
                let rest = r * r * elementary!(@polynomial r; $exp);
                (1.0 + (r + rest)).times_power_of_two(n)
            }

            /// Computes 2ⁿ·((1 - 2⁻ⁿ) + (eʳ - 1)). Near -1, only the last addition rounds. The derivative needs this,
            /// because it is the result plus 1.
            #[inline(always)]
            fn expm1(self) -> Self {
                // For all smaller x, the result rounds to -1.
                let (n, r, error, rest) = (if self < -40.0 { -40.0 } else { self }).exp_parts();
                let inverse = Self::power_of_two(if n > 64 { -64 } else { n.wrapping_neg() });
                let y = (1.0 - inverse) + (r + (rest + error));
                let y = y.times_power_of_two(n);
                // A zero keeps its sign.
                if self == 0.0 { self } else { y }
            }

            #[inline(always)]
            fn log(self) -> Self {
                let two_to_mantissa = Self::from_bits(($bias + $mantissa) << $mantissa);
                let subnormal = self < Self::MIN_POSITIVE;
                let (e, m) = (if subnormal { self * two_to_mantissa } else { self }).split();
                let y = Self::log_of_parts(if subnormal { e - $mantissa } else { e }, m - 1.0);
                let y = if self == Self::INFINITY { self } else { y };
                let y = if self == 0.0 { Self::NEG_INFINITY } else { y };
                // The logarithm of a negative number or NaN is NaN.
                if self >= 0.0 { y } else { Self::NAN }
            }

            #[inline(always)]
            fn log1p(self) -> Self {
                let (e, f) = self.split_above_one();
                let y = Self::log_of_parts(e, f);
                // A zero keeps its sign.
                let y = if self == Self::INFINITY || self == 0.0 { self } else { y };
                let y = if self == -1.0 { Self::NEG_INFINITY } else { y };
                if self >= -1.0 { y } else { Self::NAN }
            }

            /// Halves the exponent by a difference of bits (Lomont, "Fast inverse square root", 2003), so that the result y has two
            /// digits. With e = 1 - x·y², the exact result is y·(1 - e)^(-½) = y·(1 + e/2 + 3·e²/8 + 5·e³/16 + …), which has six
            /// digits at first, and then all. Division and square root take up to twice the time.
            #[inline(always)]
            fn rsqrt(self) -> Self {
                let y = Self::from_bits(<$bits>::wrapping_sub($rsqrt, self.to_bits() >> 1));
                let e = (self * y).fma(-y, 1.0);
                let y = (y * e).fma(polynomial!(e; 0.5, 0.375, 0.3125), y);
                let product = self * y;
                let e = product.fma(-y, 1.0) - self.fma(y, -product) * y;
                (y * e).fma(polynomial!(e; 0.5, 0.375, 0.3125), y)
            }

            /// Computes sinh(x) as x + x³·p(x²) near zero, and as eˣ/2 - e⁻ˣ/2 elsewhere.
            #[inline(always)]
            fn sinh(self) -> Self {
                let x = self.abs();
                let z = x * x;
                let near = x + x * z * elementary!(@polynomial z; $sinh);
                let half = x.scaled_exp(-1);
                let y = if x < 1.0 { near } else { half - 0.25 / half };
                y.copysign(self)
            }

            /// Computes eˣ/2 + e⁻ˣ/2.
            #[inline(always)]
            fn cosh(self) -> Self {
                let half = self.abs().scaled_exp(-1);
                half + 0.25 / half
            }

            /// Computes tanh(x) as q = y/(y + 2) with y = e²ˣ - 1 = (2ⁿ - 1) + 2ⁿ·(eʳ - 1). Near 0, where y is r and a small rest, the
            /// result is the equal (y - y·q)/2, in which the rounding errors of y and q do not matter.
            #[inline(always)]
            fn tanh(self) -> Self {
                let x = self.abs();
                // For all greater x, the result rounds to 1.
                let limited = if x > 20.0 { 20.0 } else { x };
                let (n, r, error, rest) = (limited + limited).parts_of_moderate();
                let scale = Self::power_of_two(n);
                let rest = rest + error;
                let y = scale.fma(r + rest, scale - 1.0);
                let quotient = y / (y + 2.0);
                let near = 0.5 * (r + y.fma(-quotient, rest));
                (if n == 0 { near } else { quotient }).copysign(self)
            }

            /// Computes asinh(x) as x + x³·p(x²) near zero, and as log(1 + x + x²/(1 + √(1 + x²))) elsewhere.
            #[inline(always)]
            fn asinh(self) -> Self {
                let x = self.abs();
                let z = x * x;
                let near = x + x * z * elementary!(@polynomial z; $asinh);
                // For a large x, the result is log(2x), and x² may overflow.
                let is_large = x > 1e18;
                let above_one = x + z / (1.0 + (1.0 + z).sqrt());
                let (e, f) = (if is_large { x } else { above_one }).split_above_one();
                let far = Self::log_of_parts(if is_large { e + 1 } else { e }, f);
                let y = if x < 0.5 { near } else { far };
                let y = if x < Self::INFINITY { y } else { x };
                y.copysign(self)
            }

            /// Computes acosh(1 + a) as log(1 + a + √(a·(a + 2))), which keeps all digits near 1.
            #[inline(always)]
            fn acosh(self) -> Self {
                let a = self - 1.0;
                // For a large x, the result is log(2x), and x² may overflow.
                let is_large = self > 1e18;
                let above_one = a + (a * (a + 2.0)).sqrt();
                let (e, f) = (if is_large { self } else { above_one }).split_above_one();
                let y = Self::log_of_parts(if is_large { e + 1 } else { e }, f);
                let y = if self < Self::INFINITY { y } else { self };
                if self >= 1.0 { y } else { Self::NAN }
            }

            /// Computes atanh(x) as x + x³·p(x²) near zero, and as log(1 + 2x/(1 - x))/2 elsewhere.
            #[inline(always)]
            fn atanh(self) -> Self {
                let x = self.abs();
                let z = x * x;
                let near = x + x * z * elementary!(@polynomial z; $atanh);
                let far = 0.5 * (2.0 * x / (1.0 - x)).log1p();
                let y = if x < 0.5 { near } else { far };
                y.copysign(self)
            }

            /// Computes 1 / (1 + e⁻ˣ).
            #[inline(always)]
            fn logistic(self) -> Self {
                1.0 / (1.0 + Elementary::exp(-self))
            }

            #[inline(always)]
            fn log_add_exp(self, other: Self) -> Self {
                let difference = self - other;
                let greatest = if self > other { self } else { other };
                let sum = greatest + Elementary::log1p(Elementary::exp(-difference.abs()));
                // Either both operands are infinities of the same sign, or one operand is NaN.
                if difference.is_nan() { self + other } else { sum }
            }

            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                let y = if self > other || self.is_nan() { self } else { other };
                if self == other { Self::from_bits(self.to_bits() & other.to_bits()) } else { y }
            }

            #[inline(always)]
            fn less(self, other: Self) -> Self {
                let y = if self < other || self.is_nan() { self } else { other };
                if self == other { Self::from_bits(self.to_bits() | other.to_bits()) } else { y }
            }
        }
    };
    (@polynomial $x:expr; ($name:ident)) => { $name!($x) };
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
    exp -104.0 90.0 (exp_rest_f32);
    ln2 0.693359375 -2.12194440e-4;
    log 0x3f35_04f3 [
        0.66666665832730614042, 0.4000030208443504402, 0.28539064654462927191,
        0.23553240617620341875,
    ];
    rsqrt 0x5f37_59df;
    sinh [
        0.16666666498779821486, 0.0083333500756688775699, 0.0001983614799057352402,
        2.8170417188510410911e-6,
    ];
    asinh [
        -0.16666665944444210168, 0.074999219631028995816, -0.044618724928777126127,
        0.030054079612012458612, -0.020122596630627114115, 0.0093537264533129989378,
    ];
    atanh [
        0.3333331497006650934, 0.20001816809558272316, 0.14234149062703858804, 0.1174029040309811944,
        0.054193565652207397282, 0.17305469909005416757,
    ];
}

elementary! {
    f64, u64, i64;
    mantissa 52, bias 1023, round 6755399441055744.0;
    exp -746.0 711.0 [
        0.50000000000000127371, 0.16666666666666698935, 0.041666666666515457417,
        0.0083333333333072986963, 0.0013888888947005064272, 0.00019841269917167289268,
        0.000024801489953897560742, 2.7557216503627362995e-6, 2.7631276101868103526e-7,
        2.5117794352641914258e-8,
    ];
    ln2 6.93147180369123816490e-01 1.90821492927058770002e-10;
    log 0x3fe6_a09e_667f_3bcd [
        0.66666666666666664484, 0.40000000000003670802, 0.28571428569758053227,
        0.2222222256122285922, 0.18181781600856463624, 0.15386861613421105524,
        0.13254745354695118995, 0.13213221485621902765,
    ];
    rsqrt 0x5fe6_eb50_c7b5_37a9;
    sinh [
        0.16666666666666667294, 0.0083333333333331600791, 0.00019841269841425691706,
        2.755731915856664866e-6, 2.5052122947992280505e-8, 1.6057271761234391431e-10,
        7.7584457205552225507e-13,
    ];
    asinh [
        -0.16666666666666666202, 0.074999999999996517329, -0.044642857142300705295,
        0.030381944405777792993, -0.022372157608190429182, 0.017352729155666090777,
        -0.013964287996831524431, 0.011545772729506140858, -0.0097156798109549437063,
        0.00814290918646456901, -0.0063754269392478039041, 0.0039942292127666068612,
        -0.0014067008222847784999,
    ];
    atanh [
        0.3333333333333332689, 0.20000000000005569981, 0.14285714284708460313, 0.11111111189730421201,
        0.090909057042125422077, 0.076923982072237052603, 0.066650622759489926265,
        0.059019528738854200047, 0.050948463044113263762, 0.057822182553336387266,
        0.00034104876792030510897, 0.16282605769589087656, -0.18086740291771081207,
        0.23254180168342065845,
    ];
}

#[cfg(test)]
pub(crate) mod tests {
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
    pub(crate) fn distance_f32(left: f32, right: f64) -> f64 {
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

    pub(crate) fn check_f32(
        name: &str,
        found: impl Fn(f32) -> f32,
        exact: fn(f64) -> f64,
        allowed: f64,
    ) {
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

    pub(crate) fn check_f64(name: &str, found: impl Fn(f64) -> f64, exact: fn(f64) -> f64) {
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

    // The inverse hyperbolic functions of the standard library lose digits near 1, or near a zero.

    fn asinh(x: f64) -> f64 {
        let x_abs = x.abs();
        if x_abs > 1e10 {
            return (x_abs.ln() + std::f64::consts::LN_2).copysign(x);
        }
        let square = x * x;
        (x_abs + square / (1.0 + (1.0 + square).sqrt()))
            .ln_1p()
            .copysign(x)
    }

    fn acosh(x: f64) -> f64 {
        if x > 1e10 {
            return x.ln() + std::f64::consts::LN_2;
        }
        let above = x - 1.0;
        if x < 1.0 {
            f64::NAN
        } else {
            (above + (above * (x + 1.0)).sqrt()).ln_1p()
        }
    }

    fn atanh(x: f64) -> f64 {
        let x_abs = x.abs();
        (0.5 * (2.0 * x_abs / (1.0 - x_abs)).ln_1p()).copysign(x)
    }

    #[test]
    fn f32_is_within_two_units() {
        check_f32("exp", Elementary::exp, f64::exp, 2.0);
        check_f32("exp2", Elementary::exp2, f64::exp2, 2.0);
        check_f32("log", Elementary::log, f64::ln, 2.0);
        check_f32("tanh", Elementary::tanh, f64::tanh, 2.0);
        check_f32("expm1", Elementary::expm1, f64::exp_m1, 2.0);
        check_f32("log1p", Elementary::log1p, f64::ln_1p, 2.0);
        check_f32("sinh", Elementary::sinh, f64::sinh, 2.0);
        check_f32("cosh", Elementary::cosh, f64::cosh, 2.0);
        check_f32("asinh", Elementary::asinh, asinh, 2.0);
        check_f32("acosh", Elementary::acosh, acosh, 2.0);
        check_f32("atanh", Elementary::atanh, atanh, 2.0);
    }

    #[test]
    fn f64_is_within_three_units_of_libm() {
        check_f64("exp", Elementary::exp, f64::exp);
        check_f64("exp2", Elementary::exp2, f64::exp2);
        check_f64("log", Elementary::log, f64::ln);
        check_f64("tanh", Elementary::tanh, f64::tanh);
        check_f64("expm1", Elementary::expm1, f64::exp_m1);
        check_f64("log1p", Elementary::log1p, f64::ln_1p);
        check_f64("sinh", Elementary::sinh, f64::sinh);
        check_f64("cosh", Elementary::cosh, f64::cosh);
        check_f64("asinh", Elementary::asinh, asinh);
        check_f64("acosh", Elementary::acosh, acosh);
        check_f64("atanh", Elementary::atanh, atanh);
    }

    #[test]
    fn rsqrt_keeps_its_last_digit() {
        for x in samples().filter(|x| x.is_normal() && *x > 0.0) {
            let exact = 1.0 / f64::from(x).sqrt();
            let off = distance_f32(Elementary::rsqrt(x), exact);
            assert!(off <= 0.501, "{x:e}: {off} units");
            let found: f64 = Elementary::rsqrt(f64::from(x));
            let steps = found.to_bits().abs_diff(exact.to_bits());
            assert!(steps <= 1, "{x:e}: {found:e}, not {exact:e}");
        }
    }

    #[test]
    fn rsqrt_of_even_powers_of_two_is_exact() {
        for n in -63..64 {
            let power = 2_f32.powi(n);
            assert_eq!(Elementary::rsqrt(power * power), 1.0 / power);
        }
        for n in -511..512 {
            let power = 2_f64.powi(n);
            assert_eq!(Elementary::rsqrt(power * power), 1.0 / power);
        }
    }
}
