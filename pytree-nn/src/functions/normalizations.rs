//! Functions along an axis: logarithms of sums of exponentials, softmax, and standardisation.

use pytree_transform::Tensor;
use pytree_transform::extend::{called_with_floats, fused};

/// Returns log Σ exp(x) along `axis`, which is removed: `[.., n, ..]` to `[.., ..]`.
///
/// The function is equivalent to [`Tensor::logsumexp_axes`] with one axis.
///
/// # Examples
/// ```
/// use pytree_nn::logsumexp;
/// use pytree_transform::Tensor;
/// let y = logsumexp(&Tensor::from([1000.0_f32, 1000.0]), -1);
/// assert!((y.item::<f32>() - (1000.0 + 2.0_f32.ln())).abs() < 1e-3);
/// ```
///
/// # Panics
/// If `axis` is out of range, or if `x` is not a tensor of floats.
#[doc(alias = "jax.nn.logsumexp")]
#[track_caller]
pub fn logsumexp(x: &Tensor, axis: isize) -> Tensor {
    x.logsumexp_axes([axis])
}

/// Returns exp(x) / Σ exp(x) along `axis`: positive numbers whose sum is 1. The result has the
/// shape of `x`.
///
/// As in JAX, the results are NaN if all elements along the axis are -∞, for example after masking.
///
/// # Examples
/// ```
/// use pytree_nn::softmax;
/// use pytree_transform::Tensor;
/// let y = softmax(&Tensor::from([0.0_f32, 0.0]), -1);
/// assert_eq!(y.to_vec::<f32>(), [0.5, 0.5]);
/// ```
///
/// # Panics
/// If `axis` is out of range, or if `x` is not a tensor of floats.
#[doc(alias("jax.nn.softmax", "scipy.special.softmax", "F.softmax"))]
#[track_caller]
pub fn softmax(x: &Tensor, axis: isize) -> Tensor {
    let _called = called_with_floats("softmax", x);
    let shift = shift(x, axis);
    fused(&[x], || {
        let exponentials = (x - shift).exp();
        let sums = exponentials.sum_keep([axis]);
        exponentials / sums
    })
}

/// Returns x - log Σ exp(x) along `axis`, the logarithm of [`softmax`]. The result has the shape of
/// `x`.
///
/// # Examples
/// ```
/// use pytree_nn::log_softmax;
/// use pytree_transform::Tensor;
/// let y = log_softmax(&Tensor::from([0.0_f64, 0.0]), -1);
/// assert!((y.to_vec::<f64>()[0] + 2.0_f64.ln()).abs() < 1e-15);
/// ```
///
/// # Panics
/// If `axis` is out of range, or if `x` is not a tensor of floats.
#[doc(alias("jax.nn.log_softmax", "scipy.special.log_softmax", "F.log_softmax"))]
#[track_caller]
pub fn log_softmax(x: &Tensor, axis: isize) -> Tensor {
    let _called = called_with_floats("log_softmax", x);
    let shift = shift(x, axis);
    fused(&[x], || {
        let shifted = x - shift;
        let normalizers = shifted.exp().sum_keep([axis]).log();
        shifted - normalizers
    })
}

/// Returns (x - mean) / √(variance + ε) along `axis`, so that the elements have mean 0 and variance 1. The result has
/// the shape of `x`.
///
/// The same function in JAX is `standardize` with `algorithm="stable"`. The number ε is `epsilon`, whose default in JAX
/// is 10⁻⁵.
///
/// # Examples
/// ```
/// use pytree_nn::standardize;
/// use pytree_transform::Tensor;
/// let y = standardize(&Tensor::from([1.0_f64, 5.0]), -1, 0.0);
/// assert_eq!(y.to_vec::<f64>(), [-1.0, 1.0]);
/// ```
///
/// # Panics
/// If `axis` is out of range, or if `x` is not a tensor of floats.
#[doc(alias = "jax.nn.standardize")]
#[track_caller]
pub fn standardize(x: &Tensor, axis: isize, epsilon: f64) -> Tensor {
    let _called = called_with_floats("standardize", x);
    let mean = x.mean_keep([axis]);
    fused(&[x], || {
        let centred = x - mean;
        let variance = centred.square().mean_keep([axis]);
        centred * (variance + epsilon).rsqrt()
    })
}

/// Returns the maximum along `axis`, which is kept with length 1.
///
/// A softmax subtracts this maximum to keep its exponentials finite. The subtraction does not change the result, so the
/// maximum has no gradient.
#[track_caller]
pub(crate) fn shift(x: &Tensor, axis: isize) -> Tensor {
    x.stop_gradient().max_keep([axis])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pytree_transform::ix;

    pub(in crate::functions) fn close(found: &Tensor, expected: &[f64]) {
        let found = found.to_vec::<f64>();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 1e-12,
                "found {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn softmax_and_its_logarithm_agree() {
        let x = Tensor::from([[0.3_f64, -1.0, 2.0], [100.0, 100.5, -100.0]]);
        close(&log_softmax(&x, -1).exp(), &softmax(&x, -1).to_vec::<f64>());
        close(&softmax(&x, 1).sum_axes([1]), &[1.0, 1.0]);
        close(
            &logsumexp(&x, 0),
            &[
                (0.3_f64 - 100.0).exp().ln_1p() + 100.0,
                100.5 + (-101.5_f64).exp().ln_1p(),
                2.0 + (-102.0_f64).exp().ln_1p(),
            ],
        );
    }

    #[test]
    fn infinite_logits_exclude_a_class() {
        let x = Tensor::from([0.0_f64, f64::NEG_INFINITY]);
        close(&softmax(&x, 0), &[1.0, 0.0]);
    }

    #[test]
    fn row_of_minus_infinity_sums_to_zero() {
        let x = Tensor::from([[f64::NEG_INFINITY; 2], [0.0, f64::NEG_INFINITY]]);
        assert_eq!(logsumexp(&x, -1).to_vec::<f64>(), [f64::NEG_INFINITY, 0.0]);
        let y = softmax(&x, -1).to_vec::<f64>();
        assert!(y[0].is_nan() && y[1].is_nan());
        close(&softmax(&x, -1).index(ix![1]), &[1.0, 0.0]);
    }
}
