//! The cross entropy of classifiers, with an integer label or a distribution over the classes for each example.

use pytree_core::shapes;
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use crate::error::InputError;
use crate::functions::{log_softmax, shift, wide_integers};

const CROSS_ENTROPY: &str = "softmax_cross_entropy";

/// Returns, for each example, the cross entropy between the label and the softmax of the logits x:
/// log Σ exp(xᵢ) - x_label. The logits are `[*batch, classes]`, the labels `[*batch]`, and the result `[*batch]`.
///
/// The computation does not overflow, as in optax's `softmax_cross_entropy_with_integer_labels`. The gradient with
/// respect to the logits is softmax(logits) - one hot(label).
///
/// Under `jit` and `vmap` the values of labels are unknown and not checked. As in optax, a label in `-classes..0` then
/// counts from the end. For any other out-of-range label, the loss is NaN and the gradient is softmax(logits).
///
/// # Examples
/// ```
/// use pytree_nn::softmax_cross_entropy;
/// use pytree_transform::Tensor;
/// let logits = Tensor::from([[2.0_f32, 0.0], [0.0, 0.0]]);
/// let loss = softmax_cross_entropy(&logits, &Tensor::from([0, 1])).mean();
/// assert!((loss.item::<f32>() - 0.410038).abs() < 1e-6);
/// ```
///
/// For one-hot labels and other distributions, use [`softmax_cross_entropy_soft`].
///
/// # Panics
/// If the shapes do not match, if the logits are not floats, if the labels are not integers, or if a label whose
/// value is known is not in `0..classes`.
#[doc(alias("optax.softmax_cross_entropy_with_integer_labels", "F.cross_entropy"))]
#[panicking_twin(softmax_cross_entropy)]
pub fn try_softmax_cross_entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor, InputError> {
    #[shapes(
        logits = "T: float[*batch classes]",
        labels = "int[*batch]",
        return = "T[*batch]"
    )]
    #[track_caller]
    fn softmax_cross_entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor, InputError> {
        let classes = classes_of(logits);
        match check_labels(CROSS_ENTROPY, labels, classes) {
            Ok(()) => Ok(cross_entropy(logits, labels, classes)),
            Err(error) => Err(error),
        }
    }
    match refuse_one_hot(CROSS_ENTROPY, logits, labels) {
        Ok(()) => softmax_cross_entropy(logits, labels),
        Err(error) => Err(error),
    }
}

/// Returns an error for labels with an axis of classes. Their shape is that of the logits, which no indices of classes
/// have.
fn refuse_one_hot(what: &'static str, logits: &Tensor, labels: &Tensor) -> Result<(), InputError> {
    if logits.rank() == 0 || logits.shape() != labels.shape() {
        return Ok(());
    }
    Err(InputError::input(
        what,
        "labels: int[*batch], the index of a class for each example",
        labels,
        "for one-hot labels or probabilities, use `softmax_cross_entropy_soft` with labels of the logits' dtype, or pass `labels.argmax(-1)`",
    ))
}

/// Returns the length of the last axis.
pub(crate) fn classes_of(logits: &Tensor) -> usize {
    logits.shape().last().copied().unwrap_or_default()
}

#[track_caller]
pub(super) fn cross_entropy(logits: &Tensor, labels: &Tensor, classes: usize) -> Tensor {
    let labels = &wide_integers(labels);
    let shifted = logits - shift(logits, -1);
    let normalizers = shifted.exp().sum_axes([-1]).log();
    let logits_of = |label: &Tensor| {
        let is_label = Tensor::arange(label.dtype(), classes).equal(label.expand_dims(-1));
        is_label
            .select(&shifted, Tensor::zeros_like(&shifted))
            .sum_axes([-1])
    };
    if !labels.is_traced() {
        return normalizers - logits_of(labels);
    }
    let end = Tensor::full(labels.dtype(), [], classes);
    let zero = Tensor::zeros_like(&end);
    let label = labels.less(&zero).select(labels + &end, labels);
    let of_label = logits_of(&label);
    let has_class = label.greater_equal(&zero) & label.less(&end);
    let of_label = has_class.select(&of_label, Tensor::full_like(&of_label, f64::NAN));
    normalizers - of_label
}

/// Returns, for each example, the cross entropy between a distribution p over the classes and the softmax of the logits
/// x: -Σ pᵢ log softmax(x)ᵢ. The distribution p is also called a soft label.
///
/// A class with pᵢ = 0 adds nothing, even if its logit is -∞, as in optax's `safe_softmax_cross_entropy`. The function
/// does not normalise the probabilities, so their sum should be 1.
///
/// # Examples
/// ```
/// use pytree_nn::{smooth_labels, softmax_cross_entropy_soft};
/// use pytree_transform::{DType, Tensor};
/// let logits = Tensor::from([[2.0_f32, 0.0], [0.0, 0.0]]);
/// let labels = smooth_labels(&Tensor::from([0, 1]).one_hot(2, DType::F32), 0.1);
/// let loss = softmax_cross_entropy_soft(&logits, &labels).mean();
/// assert!((loss.item::<f32>() - 0.460038).abs() < 1e-6);
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias("optax.softmax_cross_entropy", "optax.safe_softmax_cross_entropy"))]
#[shapes(
    logits = "T: float[*batch classes]",
    probabilities = "T[*batch classes]",
    return = "T[*batch]"
)]
#[panicking_twin(softmax_cross_entropy_soft)]
pub fn try_softmax_cross_entropy_soft(
    logits: &Tensor,
    probabilities: &Tensor,
) -> Result<Tensor, InputError> {
    let zeros = Tensor::zeros_like(logits);
    let products = probabilities * log_softmax(logits, -1);
    let terms = probabilities.equal(&zeros).select(&zeros, &products);
    Ok(-terms.sum_axes([-1]))
}

/// Returns smoothed labels (1 - α) p + α / classes for labels p: `[.., classes]`.
///
/// The number α is `alpha` in [0, 1]. The source is Szegedy et al. 2016, "Rethinking the inception architecture for
/// computer vision", section 7. The same function in optax is `optax.smooth_labels`.
///
/// # Examples
/// ```
/// use pytree_nn::smooth_labels;
/// use pytree_transform::Tensor;
/// let labels = smooth_labels(&Tensor::from([[1.0_f64, 0.0]]), 0.5);
/// assert_eq!(labels, Tensor::from([[0.75, 0.25]]));
/// ```
///
/// # Panics
/// If the labels are not floats.
#[doc(alias = "optax.smooth_labels")]
#[shapes(labels = "T: float[*batch classes]", return = "T[*batch classes]")]
#[panicking_twin(smooth_labels)]
pub fn try_smooth_labels(labels: &Tensor, alpha: f64) -> Result<Tensor, InputError> {
    Ok(labels * (1.0 - alpha) + alpha / classes_of(labels) as f64)
}

/// Checks that all labels are in `0..classes`. Accepts traced labels, whose values are unknown.
pub(crate) fn check_labels(
    what: &'static str,
    labels: &Tensor,
    classes: usize,
) -> Result<(), InputError> {
    if labels.is_traced() {
        return Ok(());
    }
    let labels = labels.convert(DType::I64);
    let values = labels.read::<i64>().map_err(InputError::inside(what))?;
    match values
        .iter()
        .position(|&label| !usize::try_from(label).is_ok_and(|label| label < classes))
    {
        Some(position) => Err(InputError::Label {
            what,
            classes,
            label: values[position],
            position,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::softmax;
    use pytree_transform::{grad, jit};

    fn logits() -> Tensor {
        Tensor::from([[0.5_f64, -2.0, 1000.0], [0.1, 0.2, 0.3]])
    }

    #[test]
    fn the_gradient_is_softmax_less_one_hot() {
        let labels = Tensor::from([0, 2]);
        let gradient =
            grad(|logits: &Tensor| softmax_cross_entropy(logits, &labels).sum())(&logits());
        let expected = softmax(&logits(), -1) - labels.one_hot(3, DType::F64);
        for (found, expected) in gradient
            .to_vec::<f64>()
            .iter()
            .zip(expected.to_vec::<f64>())
        {
            assert!(
                (found - expected).abs() < 1e-15,
                "found {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn label_out_of_range_is_reported() {
        let error = try_softmax_cross_entropy(&logits(), &Tensor::from([0, 3])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "softmax_cross_entropy expects labels in 0..3, found 3 at position 1; check the number of classes, or the order of the arguments"
        );
        let negative = try_softmax_cross_entropy(&logits(), &Tensor::from([0, -1])).unwrap_err();
        assert!(
            negative.to_string().contains("found -1 at position 1"),
            "{negative}"
        );
    }

    #[test]
    fn large_label_is_no_other_label_under_jit() {
        // The low 32 bits of these labels equal the low 32 bits of -1 and 0.
        let of_u32 = Tensor::from([u32::MAX, 0]);
        let of_i64 = Tensor::from([i64::from(u32::MAX), 1 << 32]);
        let losses = jit(|labels: Tensor| softmax_cross_entropy(&logits(), &labels));
        assert_eq!(losses(of_u32).isnan().to_vec::<bool>(), [true, false]);
        assert_eq!(losses(of_i64).isnan().to_vec::<bool>(), [true, true]);
    }

    #[test]
    fn narrow_labels_of_many_classes_are_labels() {
        let losses =
            jit(|(logits, labels): (Tensor, Tensor)| softmax_cross_entropy(&logits, &labels));
        for classes in [128, 300] {
            let logits = Tensor::arange(DType::F64, classes).reshape([1, classes]) * 0.1;
            let expected = softmax_cross_entropy(&logits, &Tensor::from([127]));
            let labels = Tensor::from([127_i8]);
            assert_eq!(softmax_cross_entropy(&logits, &labels), expected);
            assert_eq!(losses((logits, labels)), expected);
        }
    }

    #[test]
    fn wrong_shapes_are_named() {
        let one_hot = Tensor::from([0, 2]).one_hot(3, DType::F64);
        for labels in [&one_hot, &one_hot.convert(DType::I32)] {
            let error = try_softmax_cross_entropy(&logits(), labels).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "softmax_cross_entropy expects labels: int[*batch], the index of a class for each example, found {}; for one-hot labels or probabilities, use `softmax_cross_entropy_soft` with labels of the logits' dtype, or pass `labels.argmax(-1)`",
                    labels.info()
                )
            );
        }
        let classes = one_hot.argmax(-1);
        assert_eq!(classes.to_vec::<i32>(), [0, 2]);
        assert!(try_softmax_cross_entropy(&logits(), &classes).is_ok());
        let error = try_softmax_cross_entropy(&logits(), &Tensor::from([0, 1, 2]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "softmax_cross_entropy: labels is i32[3], expected int[*batch] with *batch = [2] (from logits: f64[2,3] as T: float[*batch classes]); pass labels and logits with the same axes `*batch`"
            ),
            "{error}"
        );
        let error = try_softmax_cross_entropy(&logits(), &Tensor::from([0.0, 1.0]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("softmax_cross_entropy: labels is f64[2], expected int[*batch]; convert labels to an integer dtype"),
            "{error}"
        );
    }
}
