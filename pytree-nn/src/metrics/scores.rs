//! Precision, recall and F1, collected over batches.

use pytree_core::{Module, Static, shapes};
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor, ix};

use crate::error::InputError;
use crate::metrics::confusion::ConfusionMatrix;

/// How [`Precision`], [`Recall`] and [`F1`] combine classes. The names are the same as in scikit-learn.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Averaging {
    /// The score of class 1. There must be two classes.
    Binary,
    /// The mean of the scores of all classes. A class without examples and predictions has the score 0.
    Macro,
    /// The score that is computed from the counts of all classes together. If each example has one label and one
    /// prediction, precision, recall and F1 equal the accuracy.
    Micro,
}

/// Defines the three metrics, which differ only in their formula.
macro_rules! scores {
    ($(
        $(#[$doc:meta])*
        $name:ident($counts:ident) = $formula:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// If the denominator is 0, the score is 0, as in scikit-learn with `zero_division=0`.
        #[derive(Module, Clone, Debug, PartialEq)]
        pub struct $name {
            /// The number of examples for each label and prediction.
            pub matrix: ConfusionMatrix,
            /// How classes are combined.
            #[r#static]
            pub averaging: Averaging,
        }

        impl $name {
            /// Creates the metric without examples.
            ///
            /// # Panics
            /// If `averaging` is [`Averaging::Binary`] and `classes` is not 2, or if the memory for the matrix cannot
            /// be allocated.
            #[track_caller]
            pub fn new(classes: usize, averaging: Averaging) -> Self {
                assert!(
                    averaging != Averaging::Binary || classes == 2,
                    "cannot make a binary {} of {classes} classes: expected 2 classes; use `Averaging::Macro` or `Averaging::Micro`",
                    stringify!($name)
                );
                let matrix = ConfusionMatrix::new(classes);
                Self { matrix, averaging }
            }

            /// Adds a batch of examples. Predictions are classes, such as the result of `logits.argmax(-1)`.
            ///
            /// # Panics
            /// If the shapes differ, if predictions or labels are not integers, or if a class whose value is known is
            /// not in `0..classes`. An example with an out-of-range traced class is not counted.
            #[shapes(predictions = "int[*batch]", labels = "int[*batch]")]
            #[panicking_twin(update)]
            pub fn try_update(&mut self, predictions: &Tensor, labels: &Tensor) -> Result<(), InputError> {
                self.matrix.try_update(predictions, labels)
            }

            /// Adds the examples of a batch where `mask` is true. The predictions and labels of other examples have no
            /// effect.
            ///
            /// # Panics
            /// In the same cases as [`update`](Self::update), or if the mask is not a tensor of bools.
            #[shapes(predictions = "int[*batch]", labels = "int[*batch]", mask = "bool[*batch]")]
            #[panicking_twin(update_where)]
            pub fn try_update_where(
                &mut self,
                predictions: &Tensor,
                labels: &Tensor,
                mask: &Tensor,
            ) -> Result<(), InputError> {
                self.matrix.try_update_where(predictions, labels, mask)
            }

            /// Adds the examples that another metric has collected.
            ///
            /// # Panics
            /// If the numbers of classes differ.
            #[track_caller]
            pub fn merge(&mut self, other: &Self) {
                self.matrix.merge(&other.matrix);
            }

            /// Returns the score as an f32 scalar.
            ///
            /// # Panics
            /// If the metric is traced by a transformation that has finished.
            #[must_use]
            #[track_caller]
            pub fn compute(&self) -> Tensor {
                let $counts = &Counts::new(&self.matrix, self.averaging);
                let score: Tensor = $formula;
                averaged(&score, self.averaging)
            }
        }
    )*};
}

scores! {
    /// The fraction of correct predictions among all predictions of a class: tp / (tp + fp), where tp and fp are the
    /// numbers of true and false positives.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::metrics::{Averaging, Precision};
    /// use pytree_transform::Tensor;
    /// let mut precision = Precision::new(2, Averaging::Binary);
    /// precision.update(&Tensor::from([1, 1, 0, 0]), &Tensor::from([1, 0, 1, 1]));
    /// assert_eq!(precision.compute().item::<f32>(), 0.5);
    /// ```
    #[doc(alias("sklearn.metrics.precision_score", "torchmetrics.Precision"))]
    Precision(counts) = fraction(&counts.correct, &counts.predicted);

    /// The fraction of correct predictions among all examples of a class: tp / (tp + fn), where tp and fn are the
    /// numbers of true positives and false negatives.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::metrics::{Averaging, Recall};
    /// use pytree_transform::Tensor;
    /// let mut recall = Recall::new(2, Averaging::Macro);
    /// recall.update(&Tensor::from([1, 1, 0, 0]), &Tensor::from([1, 1, 1, 1]));
    /// assert_eq!(recall.compute().item::<f32>(), 0.25);
    /// ```
    #[doc(alias("sklearn.metrics.recall_score", "torchmetrics.Recall"))]
    Recall(counts) = fraction(&counts.correct, &counts.labelled);

    /// The harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn), where tp, fp and fn are the numbers of true
    /// positives, false positives and false negatives (van Rijsbergen 1979, "Information retrieval", chapter 7).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::metrics::{Averaging, F1};
    /// use pytree_transform::Tensor;
    /// let mut f1 = F1::new(2, Averaging::Binary);
    /// f1.update(&Tensor::from([1, 1, 0, 0]), &Tensor::from([1, 0, 0, 0]));
    /// assert_eq!(f1.compute().item::<f32>(), 2.0 / 3.0);
    /// ```
    #[doc(alias("sklearn.metrics.f1_score", "torchmetrics.F1Score"))]
    F1(counts) = fraction(&(&counts.correct * 2.0), &(&counts.predicted + &counts.labelled));
}

/// Numbers of examples as f64: `[classes]` with one number for each class, or scalars for all classes together.
struct Counts {
    /// The number of examples whose prediction is the label.
    correct: Tensor,
    /// The number of examples with each predicted class.
    predicted: Tensor,
    /// The number of examples with each label.
    labelled: Tensor,
}

impl Counts {
    #[track_caller]
    fn new(matrix: &ConfusionMatrix, averaging: Averaging) -> Self {
        let matrix = matrix.counts.convert(DType::F64);
        let of_classes = [
            matrix.diagonal(0, 0, 1),
            matrix.sum_axes([0]),
            matrix.sum_axes([1]),
        ];
        let [correct, predicted, labelled] = match averaging {
            Averaging::Micro => of_classes.map(|counts| counts.sum()),
            Averaging::Binary | Averaging::Macro => of_classes,
        };
        Self {
            correct,
            predicted,
            labelled,
        }
    }
}

/// Returns the quotient, or 0 where the denominator is 0.
#[track_caller]
fn fraction(numerator: &Tensor, denominator: &Tensor) -> Tensor {
    numerator / denominator.maximum(1.0)
}

#[track_caller]
fn averaged(score: &Tensor, averaging: Averaging) -> Tensor {
    let score = match averaging {
        Averaging::Binary => score.index(ix![1]),
        Averaging::Macro => score.mean(),
        Averaging::Micro => score.clone(),
    };
    score.convert(DType::F32)
}
