//! Hinge losses, which are 0 only if the score of the right decision exceeds the other scores by a margin.

use pytree_core::shapes;
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use crate::error::InputError;
use crate::losses::softmax::{check_labels, classes_of};

/// Returns max(0, 1 - s t) for each score s and its target t, which is -1 or 1: `[*shape]`.
///
/// The source is Cortes and Vapnik 1995, "Support-vector networks". The same function in optax is `optax.hinge_loss`.
/// At the margin s t = 1, the derivative is the mean of the derivatives on both sides, as in JAX.
///
/// # Examples
/// ```
/// use pytree_nn::hinge_loss;
/// use pytree_transform::Tensor;
/// let losses = hinge_loss(&Tensor::from([0.5, 2.0]), &Tensor::from([1.0, -1.0]));
/// assert_eq!(losses, Tensor::from([0.5, 3.0]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias = "optax.hinge_loss")]
#[shapes(
    scores = "T: float[*shape]",
    targets = "T[*shape]",
    return = "T[*shape]"
)]
#[panicking_twin(hinge_loss)]
pub fn try_hinge_loss(scores: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    Ok((1.0 - scores * targets).maximum(0.0))
}

/// Returns, for each example with scores s and label y, the maximum of sᵢ + [i ≠ y] - s_y over the classes i:
/// `[*batch]`. The loss is 0 if the score of the label exceeds all other scores by at least 1.
///
/// The source is Crammer and Singer 2001, "On the algorithmic implementation of multiclass kernel-based vector
/// machines". The same function in optax is `optax.multiclass_hinge_loss`.
///
/// Under `jit` and `vmap`, the values of labels are unknown and not checked. An out-of-range label then matches no
/// class, so the loss is 1 plus the largest score.
///
/// # Examples
/// ```
/// use pytree_nn::multiclass_hinge_loss;
/// use pytree_transform::Tensor;
/// let losses = multiclass_hinge_loss(&Tensor::from([[3.0, 2.5, 0.0]]), &Tensor::from([0]));
/// assert_eq!(losses, Tensor::from([0.5]));
/// ```
///
/// # Panics
/// If the shapes do not match, if the scores are not floats, if the labels are not integers, or if a label whose value
/// is known is not in `0..classes`.
#[doc(alias("optax.multiclass_hinge_loss", "nn.MultiMarginLoss"))]
#[shapes(
    scores = "T: float[*batch classes]",
    labels = "int[*batch]",
    return = "T[*batch]"
)]
#[panicking_twin(multiclass_hinge_loss)]
pub fn try_multiclass_hinge_loss(scores: &Tensor, labels: &Tensor) -> Result<Tensor, InputError> {
    let classes = classes_of(scores);
    check_labels("multiclass_hinge_loss", labels, classes)?;
    let hot = labels.one_hot(classes, scores.dtype());
    let best = (scores + (1.0 - &hot)).max_axes([-1]);
    let zeros = Tensor::zeros_like(scores);
    let of_label = hot
        .convert(DType::Bool)
        .select(scores, &zeros)
        .sum_axes([-1]);
    Ok(best - of_label)
}
