//! Losses: the cross entropy of classifiers and the mean squared error.

use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use crate::error::InputError;
use crate::functions::shift;

const CROSS_ENTROPY: &str = "softmax_cross_entropy";
const MSE: &str = "mse";

/// Returns, for each example, the cross entropy between the label and the softmax of the logits x:
/// log Σ exp(xᵢ) - x_label.
///
/// `logits: [.., classes]`, `labels: [..]` of integers; returns `[..]`. The computation does not overflow, as in
/// optax's `softmax_cross_entropy_with_integer_labels`. The gradient with respect to the logits is
/// softmax(logits) - one hot(label).
///
/// Under `jit` and `vmap` the values of labels are unknown and not checked. As in optax, a label in `-classes..0` then
/// counts from the end. For any other label out of range, the loss is NaN and the gradient is softmax(logits).
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
/// # Panics
/// If the shapes do not match, if the logits are not floats, if the labels are not integers, or if a label whose
/// value is known is not in `0..classes`.
#[panicking_twin(softmax_cross_entropy)]
#[track_caller]
pub fn try_softmax_cross_entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor, InputError> {
    let classes = check_classification(CROSS_ENTROPY, logits, labels)?;
    let shifted = logits - shift(logits, -1);
    let normalizers = shifted.exp().sum_axes([-1]).log();
    let logits_of = |label: &Tensor| {
        let is_label = Tensor::arange(label.dtype(), classes).equal(label.expand_dims(-1));
        is_label
            .select(&shifted, &Tensor::zeros_like(&shifted))
            .sum_axes([-1])
    };
    if !labels.is_traced() {
        return Ok(normalizers - logits_of(labels));
    }
    let end = Tensor::full(labels.dtype(), [], classes as f64);
    let zero = Tensor::zeros_like(&end);
    let label = labels.less(&zero).select(&(labels + &end), labels);
    let of_label = logits_of(&label);
    let has_class = label.greater_equal(&zero) & label.less(&end);
    let of_label = has_class.select(&of_label, &Tensor::full_like(&of_label, f64::NAN));
    Ok(normalizers - of_label)
}

/// Returns the mean of the squared differences between predictions and targets.
///
/// `predictions: [..]`, `targets` of the same shape; returns `[]`.
///
/// # Examples
/// ```
/// use pytree_nn::mse;
/// use pytree_transform::Tensor;
/// let loss = mse(&Tensor::from([1.0_f32, 2.0]), &Tensor::from([1.0_f32, 4.0]));
/// assert_eq!(loss.item::<f32>(), 2.0);
/// ```
///
/// # Panics
/// If the shapes or dtypes differ.
#[panicking_twin(mse)]
#[track_caller]
pub fn try_mse(predictions: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    if targets.info() != predictions.info() || !targets.dtype().is_float() {
        return Err(InputError::input(
            MSE,
            format!(
                "float targets with the shape and dtype of the predictions, {}",
                predictions.info()
            ),
            targets,
            "reshape or convert the targets or the predictions; they are not broadcast, because that would hide mistakes",
        ));
    }
    Ok((predictions - targets).square().mean())
}

/// Checks that `logits` are floats of shape `[.., classes]` and `labels` integers of shape `[..]` in range. Returns the
/// number of classes.
pub(crate) fn check_classification(
    what: &'static str,
    logits: &Tensor,
    labels: &Tensor,
) -> Result<usize, InputError> {
    let Some((&classes, examples)) = logits.shape().split_last() else {
        return Err(InputError::input(
            what,
            "logits: [.., classes]",
            logits,
            "give the logits a last axis with one element for each class",
        ));
    };
    if !logits.dtype().is_float() {
        return Err(InputError::input(
            what,
            "float logits",
            logits,
            "convert the logits, for instance with `.convert(DType::F32)`",
        ));
    }
    if labels.shape() != examples {
        return Err(InputError::input(
            what,
            format!(
                "labels of shape {examples:?} for the logits {}",
                logits.info()
            ),
            labels,
            if labels.shape() == logits.shape() {
                "pass one integer for each row of logits; one-hot labels become integers with `.argmax(-1)`"
            } else {
                "pass one integer for each row of logits"
            },
        ));
    }
    if labels.dtype().is_float() || labels.dtype() == DType::Bool {
        return Err(InputError::input(
            what,
            "integer labels",
            labels,
            "convert the labels, for instance with `.convert(DType::I32)`",
        ));
    }
    check_labels(what, labels, classes)?;
    Ok(classes)
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
        // The low 32 bits of these labels are those of -1 and 0.
        let of_u32 = Tensor::from([u32::MAX, 0]);
        let of_i64 = Tensor::from([i64::from(u32::MAX), 1 << 32]);
        let losses = jit(|labels: Tensor| softmax_cross_entropy(&logits(), &labels));
        assert_eq!(losses(of_u32).isnan().to_vec::<bool>(), [true, false]);
        assert_eq!(losses(of_i64).isnan().to_vec::<bool>(), [true, true]);
    }

    #[test]
    fn wrong_shapes_are_named() {
        let error = try_softmax_cross_entropy(&logits(), &Tensor::from([0, 1, 2]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "softmax_cross_entropy expects labels of shape [2] for the logits f64[2,3], found i32[3]"
            ),
            "{error}"
        );
        let one_hot = Tensor::from([0, 1]).one_hot(3, DType::F64);
        let error = try_softmax_cross_entropy(&logits(), &one_hot).unwrap_err();
        assert!(error.to_string().ends_with("with `.argmax(-1)`"), "{error}");
        let error = try_softmax_cross_entropy(&logits(), &Tensor::from([0.0, 1.0]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("softmax_cross_entropy expects integer labels, found f64[2]"),
            "{error}"
        );
    }

    #[test]
    fn mse_does_not_broadcast() {
        let error = try_mse(&Tensor::from([1.0, 2.0]), &Tensor::from([[1.0], [2.0]]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "mse expects float targets with the shape and dtype of the predictions, f64[2], found f64[2,1]"
            ),
            "{error}"
        );
    }
}
