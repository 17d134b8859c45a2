//! The confusion matrix, collected over batches.

use pytree_core::kind::Metric;
use pytree_core::{Module, shapes};
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use crate::error::InputError;
use crate::losses::check_labels;

/// The number of examples for each pair of a label and a predicted class.
///
/// `compute` returns `i64[classes, classes]`, with a row for each label and a column for each prediction, as in
/// scikit-learn. Unlike [`confusion_matrix`](crate::confusion_matrix), this metric runs under `jit` and collects
/// batches.
///
/// # Examples
/// ```
/// use pytree_nn::metrics::ConfusionMatrix;
/// use pytree_transform::Tensor;
/// let mut matrix = ConfusionMatrix::new(2);
/// matrix.update(&Tensor::from([0, 1, 1]), &Tensor::from([0, 0, 1]));
/// assert_eq!(matrix.compute().to_vec::<i64>(), [1, 1, 0, 1]);
/// ```
#[doc(alias = "torchmetrics.ConfusionMatrix")]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct ConfusionMatrix {
    /// The number of examples for each label and prediction.
    #[state(Metric, "i64[classes classes]")]
    pub counts: Tensor,
}

impl ConfusionMatrix {
    /// Creates a matrix without examples.
    ///
    /// # Panics
    /// If the memory for the matrix cannot be allocated.
    #[track_caller]
    pub fn new(classes: usize) -> Self {
        let counts = Tensor::zeros(DType::I64, [classes, classes]);
        Self { counts }
    }

    /// Adds a batch of examples. Predictions are classes, such as the result of `logits.argmax(-1)`.
    ///
    /// # Panics
    /// If the shapes differ, if predictions or labels are not integers, or if a class whose value is known is not in
    /// `0..classes`. An example with an out-of-range traced class is not counted.
    #[shapes(predictions = "int[*batch]", labels = "int[*batch]")]
    #[panicking_twin(update)]
    pub fn try_update(&mut self, predictions: &Tensor, labels: &Tensor) -> Result<(), InputError> {
        let mask = Tensor::full(DType::Bool, labels.shape(), 1.0);
        self.add(predictions, labels, &mask)
    }

    /// Adds the examples of a batch where `mask` is true. The predictions and labels of other examples have no effect.
    ///
    /// # Panics
    /// In the same cases as [`update`](Self::update), or if the mask is not a tensor of bools.
    #[shapes(
        predictions = "int[*batch]",
        labels = "int[*batch]",
        mask = "bool[*batch]"
    )]
    #[panicking_twin(update_where)]
    pub fn try_update_where(
        &mut self,
        predictions: &Tensor,
        labels: &Tensor,
        mask: &Tensor,
    ) -> Result<(), InputError> {
        self.add(predictions, labels, mask)
    }

    #[track_caller]
    fn add(
        &mut self,
        predictions: &Tensor,
        labels: &Tensor,
        mask: &Tensor,
    ) -> Result<(), InputError> {
        let classes = self.counts.shape()[0];
        let number = Tensor::full(DType::I64, [], classes);
        for numbers in [predictions, labels] {
            let used = mask.select(numbers, Tensor::zeros_like(numbers));
            check_labels("ConfusionMatrix", &used, classes)?;
        }
        let [prediction, label] =
            [predictions, labels].map(|numbers| numbers.convert(DType::I64).flatten());
        let is_class = |numbers: &Tensor| numbers.greater_equal(0) & numbers.less(&number);
        let counted = is_class(&prediction) & is_class(&label) & mask.flatten();
        let outside = Tensor::full_like(&label, classes * classes);
        let place = counted.select(label * &number + prediction, &outside);
        let ones = Tensor::ones_like(&place);
        let batch = ones.segment_sum(&place, classes * classes);
        self.counts = &self.counts + batch.reshape([classes, classes]);
        Ok(())
    }

    /// Adds the examples that another matrix has collected.
    ///
    /// # Panics
    /// If the numbers of classes differ.
    #[track_caller]
    pub fn merge(&mut self, other: &Self) {
        assert!(
            self.counts.shape() == other.counts.shape(),
            "cannot merge a ConfusionMatrix of {} classes with one of {} classes; make both with the same number of classes",
            self.counts.shape()[0],
            other.counts.shape()[0]
        );
        self.counts = &self.counts + &other.counts;
    }

    /// Returns the number of examples for each label and prediction: `i64[classes, classes]`.
    #[must_use]
    pub fn compute(&self) -> Tensor {
        self.counts.clone()
    }
}
