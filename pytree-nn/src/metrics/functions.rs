//! Metrics of classifiers: the accuracy and the confusion matrix.

use pytree_core::shapes;
use pytree_derive::panicking_twin;
use pytree_transform::extend::check_memory;
use pytree_transform::{AbstractArray, DType, Tensor};

use crate::error::InputError;
use crate::losses::{check_labels, classes_of};

const ACCURACY: &str = "accuracy";
const CONFUSION: &str = "confusion_matrix";

/// Returns the fraction of examples whose label has the largest logit.
///
/// # Examples
/// ```
/// use pytree_nn::accuracy;
/// use pytree_transform::Tensor;
/// let logits = Tensor::from([[0.1_f32, 0.9], [0.8, 0.2]]);
/// assert_eq!(accuracy(&logits, &Tensor::from([1, 1])).item::<f32>(), 0.5);
/// ```
///
/// # Panics
/// If the shapes do not match, if the logits are not floats, if the labels are not integers, or if a label whose value
/// is known is not in `0..classes`.
#[doc(alias = "sklearn.metrics.accuracy_score")]
#[shapes(
    logits = "float[*batch classes]",
    labels = "int[*batch]",
    return = "f32[]"
)]
#[panicking_twin(accuracy)]
pub fn try_accuracy(logits: &Tensor, labels: &Tensor) -> Result<Tensor, InputError> {
    match check_labels(ACCURACY, labels, classes_of(logits)) {
        Ok(()) => {
            let right = logits.argmax(-1).convert(labels.dtype()).equal(labels);
            Ok(right.convert(DType::F32).mean())
        }
        Err(error) => Err(error),
    }
}

/// Returns the number of examples for each pair of a label and a predicted class: `matrix[label][prediction]`.
///
/// Predictions and labels are in `0..classes`.
///
/// # Examples
/// ```
/// use pytree_nn::confusion_matrix;
/// use pytree_transform::Tensor;
/// let matrix = confusion_matrix(&Tensor::from([0, 1, 1]), &Tensor::from([0, 0, 1]), 2);
/// assert_eq!(matrix, [[1, 1], [0, 1]]);
/// ```
///
/// # Panics
/// If the shapes differ, if predictions or labels are not integers in `0..classes`, if the memory for the matrix cannot
/// be allocated, or under `jit` and `vmap`.
#[doc(alias = "sklearn.metrics.confusion_matrix")]
#[shapes(predictions = "int[*shape]", labels = "int[*shape]")]
#[panicking_twin(confusion_matrix)]
pub fn try_confusion_matrix(
    predictions: &Tensor,
    labels: &Tensor,
    classes: usize,
) -> Result<Vec<Vec<usize>>, InputError> {
    for tensor in [predictions, labels] {
        check_labels(CONFUSION, tensor, classes)?;
    }
    let (predictions, labels) = (predictions.convert(DType::U32), labels.convert(DType::U32));
    let predictions = predictions
        .read::<u32>()
        .map_err(InputError::inside(CONFUSION))?;
    let labels = labels
        .read::<u32>()
        .map_err(InputError::inside(CONFUSION))?;
    let counts = AbstractArray::new(DType::I64, [classes, classes]);
    check_memory(CONFUSION, &counts).map_err(InputError::inside(CONFUSION))?;
    let mut matrix = vec![vec![0; classes]; classes];
    for (&prediction, &label) in predictions.iter().zip(labels) {
        matrix[label as usize][prediction as usize] += 1;
    }
    Ok(matrix)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn prediction_out_of_range_is_reported() {
        let error =
            try_confusion_matrix(&Tensor::from([0, -1]), &Tensor::from([0, 1]), 2).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("confusion_matrix expects labels in 0..2, found -1 at position 1"),
            "{error}"
        );
    }

    #[test]
    fn labels_may_be_of_any_integer_type() {
        let logits = Tensor::from([[0.0_f32, 1.0], [0.0, 1.0]]);
        for dtype in [DType::I32, DType::I64, DType::U32] {
            assert!(
                (accuracy(&logits, &Tensor::from([1, 0]).convert(dtype)).item::<f32>() - 0.5).abs()
                    < 1e-6
            );
        }
    }
}
