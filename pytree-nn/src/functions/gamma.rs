//! The logarithm of the gamma function, its derivatives, and the function sinc.

use std::f64::consts::PI;

use pytree_transform::extend::{called_with_floats, fused};
use pytree_transform::{DType, Tensor, custom_jvp};

use crate::convert_floats::at_least_f32;
use crate::functions::rounding::product_plus;

/// The parameter g of Lanczos' approximation. The next two constants are its coefficients.
///
/// XLA uses the same numbers. The source is Godfrey 2001, "A note on the computation of the convergent Lanczos complex
/// gamma approximation".
const LANCZOS_G: f64 = 7.0;
const LANCZOS_BASE: f64 = 0.999_999_999_999_809_9;
const LANCZOS: [f64; 8] = [
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// The first coefficients of the Euler-Maclaurin formula: (2k)! / `B_2k` for the Bernoulli numbers `B_2k`.
const EULER_MACLAURIN: [f64; 12] = [
    12.0,
    -720.0,
    30_240.0,
    -1_209_600.0,
    47_900_160.0,
    -1_892_437_580.318_379_2,
    74_724_249_600.0,
    -2_950_130_727_918.164,
    116_467_828_143_500.67,
    -4_597_978_722_407_472.0,
    181_521_054_019_435_460.0,
    -7_166_165_256_175_667_000.0,
];

/// Applies `function` to half-precision floats in f32, and rounds the result once. Applies `function` to other floats
/// in their own dtype.
#[track_caller]
fn in_wide(x: &Tensor, function: impl Fn(&Tensor) -> Tensor) -> Tensor {
    fused(&[x], || function(&at_least_f32(x)).convert(x.dtype()))
}

/// Returns log |Γ(x)| of each element. The result is infinite at 0 and at negative integers. The derivative is
/// [`digamma`].
///
/// The function is computed by the approximation of Lanczos 1964, "A precision approximation of the gamma function".
/// For x < ½, the reflection Γ(x) Γ(1 - x) = π / sin(πx) is used. The same function in JAX is `jax.lax.lgamma`.
///
/// # Examples
/// ```
/// use pytree_nn::lgamma;
/// use pytree_transform::Tensor;
/// let y = lgamma(&Tensor::from(5.0_f64));
/// assert!((y.item::<f64>() - 24.0_f64.ln()).abs() < 1e-14);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("lax.lgamma", "scipy.special.gammaln", "torch.lgamma"))]
#[track_caller]
pub fn lgamma(x: &Tensor) -> Tensor {
    let _called = called_with_floats("lgamma", x);
    custom_jvp(
        |x: &Tensor| in_wide(x, lanczos_lgamma),
        |x, tangent| (lgamma(x), tangent * digamma(x)),
    )(x)
}

/// Returns Lanczos' sum c + Σ cᵢ / (z + i + 1) with c = `LANCZOS_BASE`, and the derivative of this sum.
#[track_caller]
fn lanczos_sums(z: &Tensor) -> (Tensor, Tensor) {
    let (mut sum, mut slope) = (Tensor::full_like(z, LANCZOS_BASE), Tensor::zeros_like(z));
    for (index, coefficient) in LANCZOS.into_iter().enumerate() {
        let divisor = z + (index + 1) as f64;
        sum += coefficient / &divisor;
        slope -= coefficient / divisor.square();
    }
    (sum, slope)
}

/// Returns whether each element is reflected: see [`lgamma`]. Also returns the argument z of Lanczos' formula for the
/// element or its reflection.
#[track_caller]
fn reflected(x: &Tensor) -> (Tensor, Tensor) {
    let is_reflected = x.less(0.5);
    let z = is_reflected.select(-x, x - 1.0);
    (is_reflected, z)
}

/// Returns log(z + g + ½). The result is also accurate for small z.
#[track_caller]
fn log_shifted(z: &Tensor) -> Tensor {
    let shift = LANCZOS_G + 0.5;
    (z / shift).log1p() + shift.ln()
}

#[track_caller]
fn lanczos_lgamma(x: &Tensor) -> Tensor {
    let (is_reflected, z) = reflected(x);
    let (sum, _) = lanczos_sums(&z);
    let log_t = log_shifted(&z);
    let t = &z + (LANCZOS_G + 0.5);
    let direct = (z + 0.5 - t / &log_t) * &log_t + sum.log() + (2.0 * PI).sqrt().ln();
    // |sin(πx)| equals sin(πf) for the fractional part f of |x|, and also sin(π (1 - f)).
    let absolute = x.abs();
    let fraction = &absolute - absolute.floor();
    let nearest = fraction.greater(0.5).select(1.0 - &fraction, &fraction);
    let log_sine = (nearest * PI).sin().log();
    let reflection = -&log_sine - &direct + PI.ln();
    let reflection = log_sine.isfinite().select(&reflection, &-&log_sine);
    let result = is_reflected.select(&reflection, &direct);
    let infinity = Tensor::full_like(x, f64::INFINITY);
    x.isinf().select(&infinity, &result)
}

/// Returns log k! = [`lgamma`]`(k + 1)` of f32 numbers k ≥ 0, with the roundings of XLA.
#[track_caller]
pub(crate) fn log_factorial(k: &Tensor) -> Tensor {
    let (sum, _) = lanczos_sums(k);
    let log_t = log_shifted(k);
    let t = k + (LANCZOS_G + 0.5);
    let constant = Tensor::full(DType::F32, [], (2.0 * PI).sqrt().ln());
    product_plus(&(k + 0.5 - t / &log_t), &log_t, &constant) + sum.log()
}

/// Returns the digamma function Γ'(x) / Γ(x) of each element, which is the derivative of [`lgamma`]. The result is -∞
/// at 0 and NaN at negative integers. The derivative is [`polygamma`] of order 1.
///
/// The function is computed as the derivative of Lanczos' approximation. For x < ½, the reflection
/// ψ(1 - x) - ψ(x) = π / tan(πx) is used. The same function in JAX is `jax.lax.digamma`.
///
/// # Examples
/// ```
/// use pytree_nn::digamma;
/// use pytree_transform::Tensor;
/// let y = digamma(&Tensor::from(1.0_f64));
/// assert!((y.item::<f64>() + 0.5772156649015329).abs() < 1e-14);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("lax.digamma", "scipy.special.digamma", "torch.digamma"))]
#[track_caller]
pub fn digamma(x: &Tensor) -> Tensor {
    let _called = called_with_floats("digamma", x);
    custom_jvp(
        |x: &Tensor| in_wide(x, lanczos_digamma),
        |x, tangent| (digamma(x), tangent * polygamma(1, x)),
    )(x)
}

#[track_caller]
fn lanczos_digamma(x: &Tensor) -> Tensor {
    let (is_reflected, z) = reflected(x);
    let (sum, slope) = lanczos_sums(&z);
    let t = &z + (LANCZOS_G + 0.5);
    let direct = log_shifted(&z) + slope / sum - LANCZOS_G / t;
    // Near an integer, x minus the integer is exact, but the product πx would lose digits.
    let fraction = x - (x + 0.5).floor();
    let reflection = &direct - PI / (&fraction * PI).tan();
    let result = is_reflected.select(&reflection, &direct);
    // XLA returns -∞ at 0, and NaN at the other poles.
    let at_zero = x
        .equal(0.0)
        .select(Tensor::full_like(x, f64::NEG_INFINITY), &result);
    let is_pole = x.less(0.0) & x.equal(x.floor());
    is_pole.select(Tensor::full_like(x, f64::NAN), &at_zero)
}

/// Returns the derivative of order n = `order` of [`digamma`], for each element: (-1)ⁿ⁺¹ n! Σ 1 / (x + k)ⁿ⁺¹ over
/// k = 0, 1, …. The order is at least 1.
///
/// The function is computed by the Euler-Maclaurin formula (Abramowitz and Stegun 1964, 6.4.10 and 23.1.30). For
/// negative x, order 1 uses the reflection ψ'(1 - x) + ψ'(x) = π² / sin²(πx), and the result of higher orders is NaN.
///
/// # Examples
/// ```
/// use pytree_nn::polygamma;
/// use pytree_transform::Tensor;
/// let y = polygamma(1, &Tensor::from(1.0_f64));
/// assert!((y.item::<f64>() - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-14);
/// ```
///
/// # Panics
/// If `order` is 0, or if `x` is not a tensor of floats.
#[doc(alias("lax.polygamma", "scipy.special.polygamma", "torch.polygamma"))]
#[track_caller]
pub fn polygamma(order: u32, x: &Tensor) -> Tensor {
    let _called = called_with_floats("polygamma", x);
    assert!(
        order > 0,
        "cannot compute polygamma of order 0: expected an order of at least 1; for order 0, use `digamma`"
    );
    custom_jvp(
        move |x: &Tensor| in_wide(x, |x| polygamma_of(order, x)),
        move |x, tangent| (polygamma(order, x), tangent * polygamma(order + 1, x)),
    )(x)
}

#[track_caller]
fn polygamma_of(order: u32, x: &Tensor) -> Tensor {
    let factorial: f64 = (1..=order).map(f64::from).product();
    let sign = if order % 2 == 1 { 1.0 } else { -1.0 };
    let is_negative = x.less(0.0);
    if order > 1 {
        let result = zeta(order + 1, x) * (sign * factorial);
        return is_negative.select(Tensor::full_like(x, f64::NAN), &result);
    }
    let direct = zeta(2, &is_negative.select(1.0 - x, x));
    let fraction = x - (x + 0.5).floor();
    let reflection = ((&fraction * PI).sin() / PI).square().reciprocal() - &direct;
    is_negative.select(&reflection, &direct)
}

/// Returns the Hurwitz zeta function Σ 1 / (q + k)ˢ for q ≥ 0. The first nine terms are summed directly, and the
/// Euler-Maclaurin formula approximates the sum of all other terms.
#[track_caller]
fn zeta(s: u32, q: &Tensor) -> Tensor {
    let exponent = s.cast_signed();
    let power = |q: &Tensor| q.reciprocal().powi(exponent);
    let mut sum = power(q);
    for term in 1..9 {
        sum += power(&(q + f64::from(term)));
    }
    let end = q + 9.0;
    let last = power(&end);
    sum = sum + &last * &end / (f64::from(s) - 1.0) + &last * 0.5;
    // Term k = 1, 2, … of the formula contains the derivative of order 2k - 1 at `end`.
    let squares = end.square().reciprocal();
    let mut derivative = &last / &end * f64::from(s);
    let mut order = f64::from(s);
    for coefficient in EULER_MACLAURIN {
        sum += &derivative / coefficient;
        derivative = derivative * &squares * ((order + 1.0) * (order + 2.0));
        order += 2.0;
    }
    let infinity = Tensor::full_like(q, f64::INFINITY);
    let sum = q.equal(0.0).select(&infinity, &sum);
    q.equal(f64::INFINITY).select(Tensor::zeros_like(q), &sum)
}

/// Returns sin(πx) / (πx) of each element, and 1 at 0, like `jnp.sinc`. Near 0, the function is computed by its Taylor
/// series, so its derivatives are also accurate there.
///
/// # Examples
/// ```
/// use pytree_nn::sinc;
/// use pytree_transform::Tensor;
/// let y = sinc(&Tensor::from([0.0, 0.5]));
/// assert!((y - Tensor::from([1.0, std::f64::consts::FRAC_2_PI])).abs().max().item::<f64>() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jnp.sinc", "torch.sinc"))]
#[track_caller]
pub fn sinc(x: &Tensor) -> Tensor {
    let _called = called_with_floats("sinc", x);
    in_wide(x, |x| {
        let angle = x * PI;
        let is_small = angle.abs().less(0.1);
        let square = is_small.select(&angle, Tensor::zeros_like(&angle)).square();
        let mut series = Tensor::ones_like(&square);
        for factor in [110.0, 72.0, 42.0, 20.0, 6.0] {
            series = 1.0 - series * &square / factor;
        }
        // The argument of each branch is replaced by a constant where the branch is not used, so that the unused branch
        // has the derivative 0.
        let far = is_small.select(Tensor::ones_like(&angle), &angle);
        is_small.select(&series, far.sin() / &far)
    })
}
