//! The fraction of correctly classified examples, collected over batches.

use pytree_core::{Module, shapes};
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use crate::error::InputError;
use crate::losses::{check_labels, classes_of};
use crate::metrics::mean::Mean;

/// The fraction of examples whose label has the largest logit. If several logits are the largest, the first of these
/// classes is the prediction.
///
/// # Examples
/// ```
/// use pytree_nn::metrics::Accuracy;
/// use pytree_transform::Tensor;
/// let (mut left, mut right) = (Accuracy::new(), Accuracy::new());
/// left.update(&Tensor::from([[0.1_f32, 0.9]]), &Tensor::from([1]));
/// right.update(&Tensor::from([[0.1_f32, 0.9]]), &Tensor::from([0]));
/// left.merge(&right);
/// assert_eq!(left.compute().item::<f32>(), 0.5);
/// ```
#[doc(alias("nnx.metrics.Accuracy", "torchmetrics.Accuracy"))]
#[derive(Module, Clone, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// The mean over the examples, where a correct example counts as 1 and any other example as 0.
    pub correct: Mean,
}

/// The fraction of examples whose label is among the `k` classes with the largest logits.
///
/// # Examples
/// ```
/// use pytree_nn::metrics::TopKAccuracy;
/// use pytree_transform::Tensor;
/// let mut accuracy = TopKAccuracy::new(2);
/// let logits = Tensor::from([[0.1_f32, 0.9, 0.5], [0.2, 0.4, 0.3]]);
/// accuracy.update(&logits, &Tensor::from([2, 0]));
/// assert_eq!(accuracy.compute().item::<f32>(), 0.5);
/// ```
#[derive(Module, Clone, Debug, PartialEq)]
pub struct TopKAccuracy {
    /// The mean over the examples, where a correct example counts as 1 and any other example as 0.
    pub correct: Mean,
    /// The number of classes with the largest logits that are compared with the label.
    #[r#static]
    pub k: usize,
}

impl Accuracy {
    /// Creates the metric without examples.
    pub fn new() -> Self {
        Self::default()
    }

    #[track_caller]
    #[allow(clippy::unused_self, reason = "the other metric of the macro needs it")]
    fn is_correct(&self, logits: &Tensor, labels: &Tensor) -> Tensor {
        logits.argmax(-1).convert(labels.dtype()).equal(labels)
    }
}

impl TopKAccuracy {
    /// Creates the metric without examples.
    pub fn new(k: usize) -> Self {
        let correct = Mean::new();
        Self { correct, k }
    }

    #[track_caller]
    fn is_correct(&self, logits: &Tensor, labels: &Tensor) -> Tensor {
        // If there are at most k classes, `top_k` returns all classes, so each valid label is correct.
        let (_, best) = logits.top_k(self.k.min(classes_of(logits)));
        let is_label = best
            .convert(DType::I64)
            .equal(labels.convert(DType::I64).expand_dims(-1));
        is_label.any_axes([-1])
    }
}

/// Implements the methods that both metrics have.
macro_rules! fractions {
    ($($name:ident, $text:literal;)*) => {$(
        impl $name {
            /// Adds a batch of examples.
            ///
            /// # Panics
            /// If the shapes do not match, if the logits are not floats, if the labels are not integers, or if a label
            /// whose value is known is not in `0..classes`. An example with an out-of-range traced label does not count
            /// as correct.
            #[shapes(logits = "float[*batch classes]", labels = "int[*batch]")]
            #[panicking_twin(update)]
            pub fn try_update(&mut self, logits: &Tensor, labels: &Tensor) -> Result<(), InputError> {
                check_labels($text, labels, classes_of(logits))?;
                let mask = Tensor::full(DType::Bool, labels.shape(), 1.0);
                self.correct.add(&self.is_correct(logits, labels), &mask);
                Ok(())
            }

            /// Adds the examples of a batch where `mask` is true. The labels of other examples have no effect, even if
            /// these labels are out of range.
            ///
            /// # Panics
            /// In the same cases as `update`, or if the mask is not a tensor of bools.
            #[shapes(logits = "float[*batch classes]", labels = "int[*batch]", mask = "bool[*batch]")]
            #[panicking_twin(update_where)]
            pub fn try_update_where(
                &mut self,
                logits: &Tensor,
                labels: &Tensor,
                mask: &Tensor,
            ) -> Result<(), InputError> {
                let used = mask.select(labels, Tensor::zeros_like(labels));
                check_labels($text, &used, classes_of(logits))?;
                self.correct.add(&self.is_correct(logits, labels), mask);
                Ok(())
            }

            /// Adds the examples that another metric has collected.
            ///
            /// # Panics
            /// If one of the two metrics is traced by a transformation that has finished.
            #[track_caller]
            pub fn merge(&mut self, other: &Self) {
                self.correct.merge(&other.correct);
            }

            /// Returns the fraction of correct examples as an f32 scalar, or NaN if no example was added.
            ///
            /// # Panics
            /// If the metric is traced by a transformation that has finished.
            #[must_use]
            #[track_caller]
            pub fn compute(&self) -> Tensor {
                self.correct.compute()
            }
        }
    )*};
}

fractions! {
    Accuracy, "Accuracy";
    TopKAccuracy, "TopKAccuracy";
}
