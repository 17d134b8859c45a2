//! The mean of numbers, collected over batches, and the perplexity, which is computed from a mean.

use pytree_core::kind::Metric;
use pytree_core::{Module, shapes};
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use crate::error::InputError;

/// The mean of all numbers that were added, such as the losses of all examples of an epoch.
///
/// # Examples
/// ```
/// use pytree_nn::metrics::Mean;
/// use pytree_transform::{Tensor, jit};
/// let step = jit(|(mut mean, losses): (Mean, Tensor)| {
///     mean.update(&losses);
///     mean
/// });
/// let mut mean = Mean::new();
/// for losses in [Tensor::from([1.0_f32, 2.0]), Tensor::from([6.0_f32, 7.0])] {
///     mean = step((mean, losses));
/// }
/// assert_eq!(mean.compute().item::<f32>(), 4.0);
/// ```
#[doc(alias("nnx.metrics.Average", "torchmetrics.MeanMetric"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Mean {
    /// The sum of the numbers.
    #[state(Metric, "f64[]")]
    pub total: Tensor,
    /// The count of the numbers.
    #[state(Metric, "i64[]")]
    pub count: Tensor,
}

impl Default for Mean {
    fn default() -> Self {
        Self::new()
    }
}

impl Mean {
    /// Creates a mean without numbers.
    pub fn new() -> Self {
        Self {
            total: Tensor::zeros(DType::F64, []),
            count: Tensor::zeros(DType::I64, []),
        }
    }

    /// Adds all numbers of `values`: `[*shape]`.
    ///
    /// # Panics
    /// If the values are not floats.
    #[shapes(values = "float[*shape]")]
    #[panicking_twin(update)]
    pub fn try_update(&mut self, values: &Tensor) -> Result<(), InputError> {
        self.add(values, &Tensor::full(DType::Bool, values.shape(), 1.0));
        Ok(())
    }

    /// Adds the numbers of `values` where `mask` is true: `[*shape]`.
    ///
    /// # Panics
    /// If the shapes differ, if the values are not floats, or if the mask is not a tensor of bools.
    #[shapes(values = "float[*shape]", mask = "bool[*shape]")]
    #[panicking_twin(update_where)]
    pub fn try_update_where(&mut self, values: &Tensor, mask: &Tensor) -> Result<(), InputError> {
        self.add(values, mask);
        Ok(())
    }

    #[track_caller]
    pub(super) fn add(&mut self, values: &Tensor, mask: &Tensor) {
        let values = values.convert(DType::F64);
        self.total = &self.total + values.sum_where(mask);
        self.count = &self.count + mask.convert(DType::I64).sum();
    }

    /// Adds the numbers that another mean has collected.
    ///
    /// # Panics
    /// If one of the two means is traced by a transformation that has finished.
    #[track_caller]
    pub fn merge(&mut self, other: &Self) {
        self.total = &self.total + &other.total;
        self.count = &self.count + &other.count;
    }

    /// Returns the mean as an f32 scalar, or NaN if no number was added.
    ///
    /// # Panics
    /// If the mean is traced by a transformation that has finished.
    #[must_use]
    #[track_caller]
    pub fn compute(&self) -> Tensor {
        (&self.total / self.count.convert(DType::F64)).convert(DType::F32)
    }
}

/// The perplexity of a sequence model: the exponential of the mean cross entropy of all tokens that were added.
///
/// The source is Jelinek et al. 1977, "Perplexity: a measure of the difficulty of speech recognition tasks".
///
/// # Examples
/// ```
/// use pytree_nn::metrics::Perplexity;
/// use pytree_transform::Tensor;
/// let mut perplexity = Perplexity::new();
/// // The cross entropy of each token; the last token is padding.
/// let losses = Tensor::from([2.0_f64.ln(), 8.0_f64.ln(), 100.0]);
/// perplexity.update_where(&losses, &Tensor::from([true, true, false]));
/// assert!((perplexity.compute().item::<f32>() - 4.0).abs() < 1e-6);
/// ```
#[doc(alias = "torchmetrics.text.Perplexity")]
#[derive(Module, Clone, Debug, Default, PartialEq)]
pub struct Perplexity {
    /// The mean of the cross entropies.
    pub loss: Mean,
}

impl Perplexity {
    /// Creates a perplexity without tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the losses of further tokens to the mean. `losses` contains the cross entropy of each token, computed with
    /// natural logarithms.
    ///
    /// # Panics
    /// If the losses are not floats.
    #[shapes(losses = "float[*shape]")]
    #[panicking_twin(update)]
    pub fn try_update(&mut self, losses: &Tensor) -> Result<(), InputError> {
        self.loss.try_update(losses)
    }

    /// Adds the cross entropies of the tokens where `mask` is true: `[*shape]`.
    ///
    /// # Panics
    /// If the shapes differ, if the losses are not floats, or if the mask is not a tensor of bools.
    #[shapes(losses = "float[*shape]", mask = "bool[*shape]")]
    #[panicking_twin(update_where)]
    pub fn try_update_where(&mut self, losses: &Tensor, mask: &Tensor) -> Result<(), InputError> {
        self.loss.add(losses, mask);
        Ok(())
    }

    /// Adds the tokens that another perplexity has collected.
    ///
    /// # Panics
    /// If one of the two metrics is traced by a transformation that has finished.
    #[track_caller]
    pub fn merge(&mut self, other: &Self) {
        self.loss.merge(&other.loss);
    }

    /// Returns the perplexity as an f32 scalar, or NaN if no token was added.
    ///
    /// # Panics
    /// If the metric is traced by a transformation that has finished.
    #[must_use]
    #[track_caller]
    pub fn compute(&self) -> Tensor {
        let Mean { total, count } = &self.loss;
        (total / count.convert(DType::F64))
            .exp()
            .convert(DType::F32)
    }
}
