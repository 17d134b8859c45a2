//! Elementwise activation functions.
//!
//! At points without a derivative, such as 0 for [`relu`], the derivative is defined as in JAX.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use pytree_transform::Tensor;
use pytree_transform::extend::{called, called_with_floats, fused};

/// Applies max(x, 0) to each element. The derivative at 0 is 0, as in JAX.
///
/// # Examples
/// ```
/// use pytree_nn::relu;
/// use pytree_transform::Tensor;
/// let y = relu(&Tensor::from(-2.0_f64));
/// assert!((y.item::<f64>() - 0.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.relu", "F.relu"))]
#[track_caller]
pub fn relu(x: &Tensor) -> Tensor {
    let _called = called("relu");
    x.relu()
}

/// Applies min(max(x, 0), 6) to each element. The derivative at 0 and at 6 is 0, as in JAX.
///
/// The source is Krizhevsky 2010, "Convolutional deep belief networks on CIFAR-10".
///
/// # Examples
/// ```
/// use pytree_nn::relu6;
/// use pytree_transform::Tensor;
/// let y = relu6(&Tensor::from(7.0_f64));
/// assert!((y.item::<f64>() - 6.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.relu6", "F.relu6"))]
#[track_caller]
pub fn relu6(x: &Tensor) -> Tensor {
    let _called = called("relu6");
    x.clamp(0.0, 6.0)
}

/// Multiplies negative elements by `slope` and does not change the other elements.
///
/// The source is Maas, Hannun and Ng 2013. The default slope in JAX is 0.01.
///
/// # Examples
/// ```
/// use pytree_nn::leaky_relu;
/// use pytree_transform::Tensor;
/// let y = leaky_relu(&Tensor::from(-2.0_f64), 0.1);
/// assert!((y.item::<f64>() + 0.2).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.leaky_relu", "F.leaky_relu"))]
#[track_caller]
pub fn leaky_relu(x: &Tensor, slope: f64) -> Tensor {
    let _called = called_with_floats("leaky_relu", x);
    fused(&[x], || {
        // A product, so that the gradient needs one choice.
        x * x
            .greater_equal(0.0)
            .select(Tensor::ones_like(x), Tensor::full_like(x, slope))
    })
}

/// Replaces each element x ≤ 0 by `alpha` (eˣ - 1), and does not change the other elements.
///
/// The source is Clevert, Unterthiner and Hochreiter 2016, "Fast and accurate deep network learning by exponential
/// linear units". The default `alpha` in JAX is 1.
///
/// # Examples
/// ```
/// use pytree_nn::elu;
/// use pytree_transform::Tensor;
/// let y = elu(&Tensor::from(-1.0_f64), 2.0);
/// assert!((y.item::<f64>() + 1.2642411176571153).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.elu", "F.elu"))]
#[track_caller]
pub fn elu(x: &Tensor, alpha: f64) -> Tensor {
    let _called = called_with_floats("elu", x);
    fused(&[x], || {
        let positive = x.greater(0.0);
        // For a large positive element, the exponential may be infinite and its gradient NaN. So each positive element is
        // replaced by 0 before the exponential is computed. The last `select` discards the exponentials of these zeros.
        let safe = positive.select(0.0, x);
        positive.select(x, safe.expm1() * alpha)
    })
}

/// Applies λ · [`elu`]\(x, α) to each element. The constants λ and α keep the mean 0 and the variance 1 of values from
/// layer to layer.
///
/// The constants are λ = 1.0507… and α = 1.6732… (Klambauer, Unterthiner, Mayr and Hochreiter 2017, "Self-normalizing
/// neural networks", equation 2).
///
/// # Examples
/// ```
/// use pytree_nn::selu;
/// use pytree_transform::Tensor;
/// let y = selu(&Tensor::from(1.0_f64));
/// assert!((y.item::<f64>() - 1.0507009873554805).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.selu", "F.selu"))]
#[track_caller]
pub fn selu(x: &Tensor) -> Tensor {
    let _called = called_with_floats("selu", x);
    fused(&[x], || {
        elu(x, 1.673_263_242_354_377_2) * 1.050_700_987_355_480_5
    })
}

/// Applies max(x, 0) + `alpha` (exp(min(x, 0) / `alpha`) - 1) to each element. The derivative of this function is
/// continuous.
///
/// The source is Barron 2017, "Continuously differentiable exponential linear units". The default `alpha` in JAX is 1.
///
/// # Examples
/// ```
/// use pytree_nn::celu;
/// use pytree_transform::Tensor;
/// let y = celu(&Tensor::from(-2.0_f64), 2.0);
/// assert!((y.item::<f64>() + 1.2642411176571153).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.celu", "F.celu"))]
#[track_caller]
pub fn celu(x: &Tensor, alpha: f64) -> Tensor {
    let _called = called_with_floats("celu", x);
    fused(&[x], || {
        x.maximum(0.0) + (x.minimum(0.0) / alpha).expm1() * alpha
    })
}

/// Applies x · Φ(x) to each element. Φ is the distribution function of the standard normal distribution, approximated
/// by a hyperbolic tangent.
///
/// The result is ½x (1 + tanh(√(2/π) (x + 0.044715 x³))), as with the default options of JAX and Flax (Hendrycks and
/// Gimpel 2016, "Gaussian error linear units", section 2). See [`gelu_exact`] for the exact function.
///
/// # Examples
/// ```
/// use pytree_nn::gelu;
/// use pytree_transform::Tensor;
/// let y = gelu(&Tensor::from(1.0_f64));
/// assert!((y.item::<f64>() - 0.8411919906082768).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias = "jax.nn.gelu")]
#[track_caller]
pub fn gelu(x: &Tensor) -> Tensor {
    let _called = called_with_floats("gelu", x);
    fused(&[x], || {
        let inner = (x + x.powi(3) * 0.044_715) * (2.0 / PI).sqrt();
        x * ((inner.tanh() + 1.0) * 0.5)
    })
}

/// Applies x · Φ(x) to each element, where Φ is the distribution function of the standard normal distribution.
///
/// The result is ½x erfc(-x/√2), which is also accurate for negative x (Hendrycks and Gimpel 2016, "Gaussian error
/// linear units"). The same function in JAX is `gelu` with `approximate=False`.
///
/// # Examples
/// ```
/// use pytree_nn::gelu_exact;
/// use pytree_transform::Tensor;
/// let y = gelu_exact(&Tensor::from(1.0_f64));
/// assert!((y.item::<f64>() - 0.8413447460685429).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias = "F.gelu")]
#[track_caller]
pub fn gelu_exact(x: &Tensor) -> Tensor {
    let _called = called_with_floats("gelu_exact", x);
    fused(&[x], || x * 0.5 * (x * -FRAC_1_SQRT_2).erfc())
}

/// Applies x · σ(x) to each element, where σ is the sigmoid 1 / (1 + e⁻ˣ). This function is also called swish.
///
/// The sources are Elfwing, Uchibe and Doya 2018, and Ramachandran, Zoph and Le 2017.
///
/// # Examples
/// ```
/// use pytree_nn::silu;
/// use pytree_transform::Tensor;
/// let y = silu(&Tensor::from(0.0_f64));
/// assert!((y.item::<f64>() - 0.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.silu", "jax.nn.swish", "F.silu"))]
#[track_caller]
pub fn silu(x: &Tensor) -> Tensor {
    let _called = called_with_floats("silu", x);
    fused(&[x], || x * x.sigmoid())
}

/// Applies log(1 + eˣ) = max(x, 0) + log(1 + e⁻ˡˣˡ) to each element, without overflow.
///
/// # Examples
/// ```
/// use pytree_nn::softplus;
/// use pytree_transform::Tensor;
/// let y = softplus(&Tensor::from(1000.0_f64));
/// assert!((y.item::<f64>() - 1000.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.softplus", "F.softplus"))]
#[track_caller]
pub fn softplus(x: &Tensor) -> Tensor {
    let _called = called_with_floats("softplus", x);
    x.logaddexp(0.0)
}

/// Applies 1 / (1 + e⁻ˣ) to each element.
///
/// # Examples
/// ```
/// use pytree_nn::sigmoid;
/// use pytree_transform::Tensor;
/// let y = sigmoid(&Tensor::from(0.0_f64));
/// assert!((y.item::<f64>() - 0.5).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.sigmoid", "F.sigmoid"))]
#[track_caller]
pub fn sigmoid(x: &Tensor) -> Tensor {
    let _called = called_with_floats("sigmoid", x);
    x.sigmoid()
}

/// Applies log σ(x) = -[`softplus`]\(-x) to each element, where σ is the sigmoid 1 / (1 + e⁻ˣ).
///
/// # Examples
/// ```
/// use pytree_nn::log_sigmoid;
/// use pytree_transform::Tensor;
/// let y = log_sigmoid(&Tensor::from(-1000.0_f64));
/// assert!((y.item::<f64>() + 1000.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.log_sigmoid", "F.logsigmoid"))]
#[track_caller]
pub fn log_sigmoid(x: &Tensor) -> Tensor {
    let _called = called_with_floats("log_sigmoid", x);
    fused(&[x], || -softplus(&-x))
}

/// Applies the piecewise linear sigmoid [`relu6`]\(x + 3) / 6 to each element.
///
/// The source is Howard et al. 2019, "Searching for `MobileNetV3`", section 5.2.
///
/// # Examples
/// ```
/// use pytree_nn::hard_sigmoid;
/// use pytree_transform::Tensor;
/// let y = hard_sigmoid(&Tensor::from(1.5_f64));
/// assert!((y.item::<f64>() - 0.75).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.hard_sigmoid", "F.hardsigmoid"))]
#[track_caller]
pub fn hard_sigmoid(x: &Tensor) -> Tensor {
    let _called = called_with_floats("hard_sigmoid", x);
    fused(&[x], || {
        let limited = relu6(&(x + 3.0));
        // A product takes less time, and has the bits of JAX's compiled function. In half precision, 1/6 has too few digits.
        if x.dtype().bytes() < 4 {
            limited / 6.0
        } else {
            limited * (1.0 / 6.0)
        }
    })
}

/// Applies x · [`hard_sigmoid`]\(x) to each element. This function is also called hard swish.
///
/// The source is Howard et al. 2019, "Searching for `MobileNetV3`", section 5.2.
///
/// # Examples
/// ```
/// use pytree_nn::hard_silu;
/// use pytree_transform::Tensor;
/// let y = hard_silu(&Tensor::from(1.5_f64));
/// assert!((y.item::<f64>() - 1.125).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.hard_silu", "jax.nn.hard_swish", "F.hardswish"))]
#[track_caller]
pub fn hard_silu(x: &Tensor) -> Tensor {
    let _called = called_with_floats("hard_silu", x);
    fused(&[x], || x * hard_sigmoid(x))
}

/// Limits each element to the range from -1 to 1.
///
/// # Examples
/// ```
/// use pytree_nn::hard_tanh;
/// use pytree_transform::Tensor;
/// let y = hard_tanh(&Tensor::from(1.5_f64));
/// assert!((y.item::<f64>() - 1.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.hard_tanh", "F.hardtanh"))]
#[track_caller]
pub fn hard_tanh(x: &Tensor) -> Tensor {
    let _called = called("hard_tanh");
    fused(&[x], || {
        let one = Tensor::ones_like(x);
        let above = x.less(-1.0).select(&-&one, x);
        x.greater(1.0).select(&one, &above)
    })
}

/// Applies x / (1 + |x|) to each element.
///
/// # Examples
/// ```
/// use pytree_nn::soft_sign;
/// use pytree_transform::Tensor;
/// let y = soft_sign(&Tensor::from(3.0_f64));
/// assert!((y.item::<f64>() - 0.75).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.soft_sign", "F.softsign"))]
#[track_caller]
pub fn soft_sign(x: &Tensor) -> Tensor {
    let _called = called_with_floats("soft_sign", x);
    fused(&[x], || x / (x.abs() + 1.0))
}

/// Applies x · tanh([`softplus`]\(x)) to each element.
///
/// The source is Misra 2019, "Mish: a self regularized non-monotonic activation function".
///
/// # Examples
/// ```
/// use pytree_nn::mish;
/// use pytree_transform::Tensor;
/// let y = mish(&Tensor::from(0.0_f64));
/// assert!((y.item::<f64>() - 0.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias("jax.nn.mish", "F.mish"))]
#[track_caller]
pub fn mish(x: &Tensor) -> Tensor {
    let _called = called_with_floats("mish", x);
    fused(&[x], || x * softplus(x).tanh())
}

/// Applies (x + √(x² + b)) / 2 to each element.
///
/// The source is Barron 2021, "Squareplus". The default b in JAX is 4.
///
/// # Examples
/// ```
/// use pytree_nn::squareplus;
/// use pytree_transform::Tensor;
/// let y = squareplus(&Tensor::from(0.0_f64), 4.0);
/// assert!((y.item::<f64>() - 1.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `x` is not a tensor of floats.
#[doc(alias = "jax.nn.squareplus")]
#[track_caller]
pub fn squareplus(x: &Tensor, b: f64) -> Tensor {
    let _called = called_with_floats("squareplus", x);
    fused(&[x], || (x + (x.square() + b).sqrt()) / 2.0)
}

/// Splits `x` along an axis into two halves, and multiplies the first half by the sigmoid of the second half:
/// `[.., 2n, ..]` to `[.., n, ..]`.
///
/// The source is Dauphin, Fan, Auli and Grangier 2017, "Language modeling with gated convolutional networks", equation
/// 1.
///
/// # Examples
/// ```
/// use pytree_nn::glu;
/// use pytree_transform::Tensor;
/// let y = glu(&Tensor::from([3.0_f64, 5.0, 0.0, 0.0]), -1);
/// assert_eq!(y.to_vec::<f64>(), [1.5, 2.5]);
/// ```
///
/// # Panics
/// If the axis is out of range, if its length is odd, or if `x` is not a tensor of floats.
#[doc(alias("jax.nn.glu", "F.glu"))]
#[track_caller]
pub fn glu(x: &Tensor, axis: isize) -> Tensor {
    let _called = called("glu");
    let info = x.info();
    let place = if axis < 0 {
        x.rank().checked_add_signed(axis)
    } else {
        Some(axis.unsigned_abs())
    };
    let Some(&length) = place.and_then(|place| x.shape().get(place)) else {
        // Panics, because the axis is out of range.
        return x.move_axis(axis, 0);
    };
    assert!(
        length.is_multiple_of(2),
        "cannot take the gated linear unit of {info}: axis {axis} has the odd length {length}, but must be divided into two halves; use an axis of even length, twice the length of the result",
    );
    fused(&[x], || {
        let halves = x.split(2, axis);
        &halves[0] * halves[1].sigmoid()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::normalizations::tests::close;

    #[test]
    fn softplus_does_not_overflow() {
        close(
            &softplus(&Tensor::from([-1000.0_f64, 0.0, 1000.0])),
            &[0.0, 2.0_f64.ln(), 1000.0],
        );
    }

    #[test]
    fn gelu_and_silu_vanish_at_zero() {
        close(
            &gelu(&Tensor::from([0.0_f64, 1.0])),
            &[0.0, 0.841_191_990_608_276_8],
        );
        close(
            &silu(&Tensor::from([0.0_f64, 1.0])),
            &[0.0, 1.0 / (1.0 + (-1.0_f64).exp())],
        );
    }

    #[test]
    #[should_panic(
        expected = "cannot take the gated linear unit of f64[3]: axis -1 has the odd length 3, but must be divided into two halves"
    )]
    fn an_axis_of_odd_length_has_no_halves() {
        let _ = glu(&Tensor::from([1.0, 2.0, 3.0]), -1);
    }

    #[test]
    fn a_column_is_halved_along_its_axis() {
        let x = Tensor::from([[3.0, 1.0], [0.0, 0.0]]);
        close(&glu(&x, 0), &[1.5, 0.5]);
        assert_eq!(glu(&x, 0).shape(), [1, 2]);
    }
}
