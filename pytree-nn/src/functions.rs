//! Functions that layers and losses are made of.

use std::f64::consts::PI;

use pytree_transform::Tensor;

/// log Σ exp(x) along an axis, which goes: `[.., n, ..]` to `[.., ..]`.
///
/// Stable: the largest element is subtracted first.
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
/// If the axis is not there, or if `x` is no tensor of floats.
#[track_caller]
pub fn logsumexp(x: &Tensor, axis: isize) -> Tensor {
    let shift = shift(x, axis);
    (x - &shift).exp().sum_axes([axis]).log() + shift.squeeze(axis)
}

/// exp(x) / Σ exp(x) along an axis: positive numbers whose sum is 1. `[..]` to `[..]`.
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
/// If the axis is not there, or if `x` is no tensor of floats.
#[track_caller]
pub fn softmax(x: &Tensor, axis: isize) -> Tensor {
    let exponentials = (x - shift(x, axis)).exp();
    let sums = exponentials.sum_keep([axis]);
    exponentials / sums
}

/// x - log Σ exp(x) along an axis: the logarithm of [`softmax`]. `[..]` to `[..]`.
///
/// # Panics
/// If the axis is not there, or if `x` is no tensor of floats.
#[track_caller]
pub fn log_softmax(x: &Tensor, axis: isize) -> Tensor {
    let shifted = x - shift(x, axis);
    let normalizers = shifted.exp().sum_keep([axis]).log();
    shifted - normalizers
}

/// x · Φ(x) with Φ approximated by a hyperbolic tangent. `[..]` to `[..]`.
///
/// ½x (1 + tanh(√(2/π) (x + 0.044715 x³))): Hendrycks and Gimpel 2016, "Gaussian error linear units",
/// section 2; JAX's and Flax's default.
///
/// # Panics
/// If `x` is no tensor of floats.
#[track_caller]
pub fn gelu(x: &Tensor) -> Tensor {
    let inner = (x + x * x * x * 0.044_715) * (2.0 / PI).sqrt();
    x * ((inner.tanh() + 1.0) * 0.5)
}

/// x · σ(x), also called swish. `[..]` to `[..]`.
///
/// # Panics
/// If `x` is no tensor of floats.
#[track_caller]
pub fn silu(x: &Tensor) -> Tensor {
    x * x.sigmoid()
}

/// log(1 + eˣ) = max(x, 0) + log(1 + e⁻ˡˣˡ), which does not overflow. `[..]` to `[..]`.
///
/// # Panics
/// If `x` is no tensor of floats.
#[track_caller]
pub fn softplus(x: &Tensor) -> Tensor {
    x.relu() + ((-x.abs()).exp() + 1.0).log()
}

/// The largest along an axis, which stays with length 1.
///
/// Subtracting it keeps exponentials finite and changes no result, so it needs no gradient.
#[track_caller]
pub(crate) fn shift(x: &Tensor, axis: isize) -> Tensor {
    x.max_keep([axis]).stop_gradient()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &Tensor, expected: &[f64]) {
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
            &[0.0, 0.841_191_990_608_300_3],
        );
        close(
            &silu(&Tensor::from([0.0_f64, 1.0])),
            &[0.0, 1.0 / (1.0 + (-1.0_f64).exp())],
        );
    }
}
