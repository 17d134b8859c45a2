//! Losses of independent binary decisions, each with one logit.

use pytree_core::shapes;
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

use crate::error::InputError;
use crate::functions::log_sigmoid;

/// Returns, for each logit x and its label p, the cross entropy of p and the sigmoid of the logit:
/// -p log σ(x) - (1 - p) log(1 - σ(x)), of shape `[*shape]`.
///
/// Labels are floats in [0, 1]: classes 0 and 1, or probabilities. The computation does not overflow. The gradient with
/// respect to x is σ(x) - p. The loss is `optax.sigmoid_binary_cross_entropy`.
///
/// # Examples
/// ```
/// use pytree_nn::sigmoid_binary_cross_entropy;
/// use pytree_transform::Tensor;
/// let losses = sigmoid_binary_cross_entropy(&Tensor::from([0.0, 1e4]), &Tensor::from([1.0, 0.0]));
/// assert_eq!(losses, Tensor::from([2.0_f64.ln(), 1e4]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias(
    "optax.sigmoid_binary_cross_entropy",
    "F.binary_cross_entropy_with_logits",
    "nn.BCEWithLogitsLoss"
))]
#[shapes(
    logits = "T: float[*shape]",
    labels = "T[*shape]",
    return = "T[*shape]"
)]
#[panicking_twin(sigmoid_binary_cross_entropy)]
pub fn try_sigmoid_binary_cross_entropy(
    logits: &Tensor,
    labels: &Tensor,
) -> Result<Tensor, InputError> {
    Ok(cross_entropy(logits, labels))
}

#[track_caller]
fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Tensor {
    // log(1 - σ(x)) is computed as log σ(-x), which is accurate for large x.
    -(labels * log_sigmoid(logits)) - (1.0 - labels) * log_sigmoid(&-logits)
}

/// Returns the cross entropy of each logit and its label, times (1 - q)^γ: `[*shape]`. The number q is the probability
/// that the model gives to the label, so easy examples with q near 1 count less.
///
/// With p = σ(x) and label y, q = p y + (1 - p) (1 - y). The exponent γ is `gamma`. If `alpha` is given, each loss is
/// multiplied by α y + (1 - α) (1 - y).
///
/// The source is Lin et al. 2017, "Focal loss for dense object detection", equation 5, with α = 0.25 and γ = 2. The
/// same function in optax, `optax.sigmoid_focal_loss`, has no `alpha` by default.
///
/// # Examples
/// ```
/// use pytree_nn::sigmoid_focal_loss;
/// use pytree_transform::Tensor;
/// let losses = sigmoid_focal_loss(&Tensor::from([0.0]), &Tensor::from([1.0]), None, 2.0);
/// assert_eq!(losses, Tensor::from([2.0_f64.ln() / 4.0]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias = "optax.sigmoid_focal_loss")]
#[shapes(
    logits = "T: float[*shape]",
    labels = "T[*shape]",
    return = "T[*shape]"
)]
#[panicking_twin(sigmoid_focal_loss)]
pub fn try_sigmoid_focal_loss(
    logits: &Tensor,
    labels: &Tensor,
    alpha: Option<f64>,
    gamma: f64,
) -> Result<Tensor, InputError> {
    // log(1 - q) is computed from logarithms, because the difference 1 - q loses all digits if q is near 1.
    let positive = labels.log() + log_sigmoid(&-logits);
    let negative = (1.0 - labels).log() + log_sigmoid(logits);
    let weights = (positive.logaddexp(negative) * gamma).exp();
    let focal = cross_entropy(logits, labels) * weights;
    Ok(match alpha {
        Some(alpha) => (labels * alpha + (1.0 - labels) * (1.0 - alpha)) * focal,
        None => focal,
    })
}
