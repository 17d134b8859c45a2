//! Divergences between distributions.

use pytree_core::shapes;
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

use crate::error::InputError;

/// Returns, for each example, the Kullback-Leibler divergence of the predicted distribution q from the target
/// distribution p: Σ pᵢ (log pᵢ - log qᵢ), of shape `[*batch]`.
///
/// `log_predictions` contains log q, such as the result of [`log_softmax`](crate::log_softmax), and `targets` contains
/// p. A class with pᵢ = 0 adds 0. The loss is `optax.kl_divergence`.
///
/// The source is Kullback and Leibler 1951, "On information and sufficiency", equation 2.4.
///
/// # Examples
/// ```
/// use pytree_nn::kl_divergence;
/// use pytree_transform::Tensor;
/// let log_predictions = Tensor::from([[0.5_f64, 0.5]]).log();
/// let losses = kl_divergence(&log_predictions, &Tensor::from([[1.0, 0.0]]));
/// assert_eq!(losses, Tensor::from([2.0_f64.ln()]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias("optax.kl_divergence", "F.kl_div", "nn.KLDivLoss"))]
#[shapes(
    log_predictions = "T: float[*batch classes]",
    targets = "T[*batch classes]",
    return = "T[*batch]"
)]
#[panicking_twin(kl_divergence)]
pub fn try_kl_divergence(log_predictions: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    let zeros = Tensor::zeros_like(targets);
    let is_zero = targets.equal(&zeros);
    // Zeros are replaced by 1 before the logarithm, so that the derivative of the logarithm stays finite.
    let logarithms = is_zero.select(Tensor::ones_like(targets), targets).log();
    let terms = targets * (logarithms - log_predictions);
    Ok(is_zero.select(&zeros, &terms).sum_axes([-1]))
}

/// Returns, for each example, the same divergence as [`kl_divergence`], computed from the logarithms of the targets:
/// Σ exp(log pᵢ) (log pᵢ - log qᵢ), of shape `[*batch]`.
///
/// A class with log pᵢ = -∞ adds 0. The loss is `optax.kl_divergence_with_log_targets`.
///
/// # Examples
/// ```
/// use pytree_nn::kl_divergence_with_log_targets;
/// use pytree_transform::Tensor;
/// let (log_q, log_p) = (Tensor::from([[0.5_f64, 0.5]]).log(), Tensor::from([[1.0, 0.0]]).log());
/// assert_eq!(kl_divergence_with_log_targets(&log_q, &log_p), Tensor::from([2.0_f64.ln()]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias = "optax.kl_divergence_with_log_targets")]
#[shapes(
    log_predictions = "T: float[*batch classes]",
    log_targets = "T[*batch classes]",
    return = "T[*batch]"
)]
#[panicking_twin(kl_divergence_with_log_targets)]
pub fn try_kl_divergence_with_log_targets(
    log_predictions: &Tensor,
    log_targets: &Tensor,
) -> Result<Tensor, InputError> {
    let zeros = Tensor::zeros_like(log_targets);
    let is_excluded = log_targets.equal(f64::NEG_INFINITY);
    let finite = is_excluded.select(&zeros, log_targets);
    let terms = finite.exp() * (&finite - log_predictions);
    Ok(is_excluded.select(&zeros, &terms).sum_axes([-1]))
}

/// Returns, for each example, the Kullback-Leibler divergence of the standard normal distribution from a normal
/// distribution with independent features: Σ (exp(log σᵢ²) + μᵢ² - 1 - log σᵢ²) / 2, of shape `[*batch]`.
///
/// `mean` contains μ, and `log_variance` contains log σ². The divergence is the regularization in the loss of a
/// variational autoencoder. The source is Kingma and Welling 2013, "Auto-encoding variational Bayes", appendix B.
///
/// # Examples
/// ```
/// use pytree_nn::normal_kl_divergence;
/// use pytree_transform::Tensor;
/// // The first example is the standard normal distribution.
/// let (mean, log_variance) = (Tensor::from([[0.0], [3.0]]), Tensor::from([[0.0], [0.0]]));
/// assert_eq!(normal_kl_divergence(&mean, &log_variance), Tensor::from([0.0, 4.5]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[shapes(
    mean = "T: float[*batch features]",
    log_variance = "T[*batch features]",
    return = "T[*batch]"
)]
#[panicking_twin(normal_kl_divergence)]
pub fn try_normal_kl_divergence(
    mean: &Tensor,
    log_variance: &Tensor,
) -> Result<Tensor, InputError> {
    let terms = log_variance.exp() + mean.square() - 1.0 - log_variance;
    Ok(terms.sum_axes([-1]) * 0.5)
}
