//! The cross entropy of classifiers with three options: smoothed labels, class weights, and an ignored label.

use pytree_core::{Module, shapes};
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

use crate::error::InputError;
use crate::functions::log_softmax;
use crate::losses::softmax::{check_labels, classes_of, cross_entropy};

/// The cross entropy of integer labels with options. Without options, the loss is
/// [`softmax_cross_entropy`](crate::softmax_cross_entropy).
///
/// For an example with label y, weights wᵢ of the classes and log-probabilities lᵢ = log softmax(x)ᵢ, the loss is -(1 -
/// ε) wᵧ lᵧ - ε/classes Σ wᵢ lᵢ, where ε is the smoothing. An ignored example has the loss 0, and its logits have the
/// gradient 0. The formula and the mean are the same as in PyTorch's `CrossEntropyLoss`.
///
/// The weights of the classes are a state, so an optimizer does not train these weights.
///
/// # Examples
/// ```
/// use pytree_nn::CrossEntropy;
/// use pytree_transform::Tensor;
/// let logits = Tensor::from([[2.0_f32, 0.0], [0.0, 0.0], [1.0, 3.0]]);
/// // The last example is padding.
/// let labels = Tensor::from([0, 1, -100]);
/// let loss = CrossEntropy::new().ignored_label(-100).mean(&logits, &labels);
/// assert!((loss.item::<f32>() - 0.410038).abs() < 1e-6);
///
/// let rare = CrossEntropy::new().class_weights(&Tensor::from([1.0_f32, 9.0])).smoothing(0.1);
/// assert_eq!(rare.losses(&logits, &Tensor::from([0, 1, 1])).shape(), [3]);
/// ```
#[doc(alias = "nn.CrossEntropyLoss")]
#[derive(Module, Clone, Debug, Default, PartialEq)]
pub struct CrossEntropy {
    #[state("T[classes]")]
    class_weights: Option<Tensor>,
    #[r#static]
    smoothing: f64,
    #[r#static]
    ignored_label: Option<i64>,
}

impl CrossEntropy {
    /// Creates the loss without smoothing, without class weights, and without an ignored label.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the smoothing ε in [0, 1], the fraction of each label's probability that is spread evenly over all classes.
    /// The default is 0.
    #[must_use]
    pub fn smoothing(self, smoothing: f64) -> Self {
        Self { smoothing, ..self }
    }

    /// Sets the weight of each class: `[classes]`, with the dtype of the logits. By default, all weights are 1.
    #[must_use]
    pub fn class_weights(self, weights: &Tensor) -> Self {
        let class_weights = Some(weights.clone());
        Self {
            class_weights,
            ..self
        }
    }

    /// Sets the label of ignored examples, such as -100 for padding. By default, no label is ignored.
    #[must_use]
    pub fn ignored_label(self, label: i64) -> Self {
        let ignored_label = Some(label);
        Self {
            ignored_label,
            ..self
        }
    }

    /// Returns the loss of each example: `[*batch]`.
    ///
    /// Out-of-range labels are handled as in [`softmax_cross_entropy`](crate::softmax_cross_entropy). The ignored label
    /// may be out of range.
    ///
    /// # Panics
    /// If the shapes do not match, if the logits are not floats, if the labels are not integers, or if a label whose
    /// value is known is neither ignored nor in `0..classes`.
    #[shapes(
        logits = "T: float[*batch classes]",
        labels = "int[*batch]",
        return = "T[*batch]"
    )]
    #[panicking_twin(losses)]
    pub fn try_losses(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor, InputError> {
        match self.terms(logits, labels) {
            Ok((losses, _)) => Ok(losses),
            Err(error) => Err(error),
        }
    }

    /// Returns the weighted mean of the losses: the sum of the losses, divided by the sum of the class weights. Ignored
    /// labels do not count in either sum. If all labels are ignored, the mean is NaN.
    ///
    /// # Panics
    /// In the same cases as [`losses`](Self::losses).
    #[shapes(
        logits = "T: float[*batch classes]",
        labels = "int[*batch]",
        return = "T[]"
    )]
    #[panicking_twin(mean)]
    pub fn try_mean(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor, InputError> {
        match self.terms(logits, labels) {
            Ok((losses, weights)) => Ok(losses.sum() / weights.sum()),
            Err(error) => Err(error),
        }
    }

    /// Returns the loss of each example, and its weight in the mean. The weight of an ignored example is 0.
    #[track_caller]
    fn terms(&self, logits: &Tensor, labels: &Tensor) -> Result<(Tensor, Tensor), InputError> {
        let classes = classes_of(logits);
        let Some(ignored) = self.ignored_label else {
            return self.unmasked_terms(logits, labels, classes);
        };
        let Some(kept) = is_kept(labels, ignored) else {
            return self.unmasked_terms(logits, labels, classes);
        };
        // The logits of ignored examples are also replaced, because a NaN in these logits would make the gradient NaN.
        let labels = kept.select(labels, Tensor::zeros_like(labels));
        let row = kept.expand_dims(-1).broadcast_to(logits.shape());
        let logits = row.select(logits, Tensor::zeros_like(logits));
        let (losses, weights) = self.unmasked_terms(&logits, &labels, classes)?;
        let zeros = Tensor::zeros_like(&losses);
        Ok((kept.select(&losses, &zeros), kept.select(&weights, &zeros)))
    }

    #[track_caller]
    fn unmasked_terms(
        &self,
        logits: &Tensor,
        labels: &Tensor,
        classes: usize,
    ) -> Result<(Tensor, Tensor), InputError> {
        check_labels("CrossEntropy", labels, classes)?;
        let of_label = cross_entropy(logits, labels, classes);
        let weights = match &self.class_weights {
            Some(weights) => weights.take(labels, 0),
            None => Tensor::ones_like(&of_label),
        };
        let sharp = of_label * &weights;
        if self.smoothing == 0.0 {
            return Ok((sharp, weights));
        }
        let logarithms = log_softmax(logits, -1);
        let logarithms = match &self.class_weights {
            Some(weights) => logarithms * weights,
            None => logarithms,
        };
        let spread = -logarithms.sum_axes([-1]) * (self.smoothing / classes as f64);
        Ok((sharp * (1.0 - self.smoothing) + spread, weights))
    }
}

/// Returns a mask of the labels that differ from the ignored label, or `None` if the dtype of the labels cannot
/// represent the ignored label.
fn is_kept(labels: &Tensor, ignored: i64) -> Option<Tensor> {
    let dtype = labels.dtype();
    let number = Tensor::from(ignored).convert(dtype);
    let holds = number.convert(pytree_transform::DType::I64).to_vec::<i64>() == [ignored];
    holds.then(|| labels.not_equal(&number))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use pytree_transform::{DType, grad, jit};

    #[test]
    fn ignored_nan_has_no_gradient() {
        let logits = Tensor::from([[0.5, 0.5], [f64::NAN, f64::INFINITY]]);
        let loss = CrossEntropy::new().ignored_label(-100).smoothing(0.1);
        let run = move |(logits, labels): (Tensor, Tensor)| {
            grad(|logits: &Tensor| loss.mean(logits, &labels))(&logits)
        };
        let labels = Tensor::from([1, -100]);
        for found in [
            run.clone()((logits.clone(), labels.clone())),
            jit(run)((logits.clone(), labels)),
        ] {
            let found = found.to_vec::<f64>();
            assert!((found[0] - 0.45).abs() < 1e-15 && (found[1] + 0.45).abs() < 1e-15);
            assert_eq!(found[2..], [0.0, 0.0]);
        }
    }

    #[test]
    fn unsigned_labels_have_no_negative_label() {
        let logits = Tensor::from([[0.5, 0.5]]);
        let loss = CrossEntropy::new().ignored_label(-1);
        let labels = Tensor::from([1]).convert(DType::U8);
        assert_eq!(loss.mean(&logits, &labels), Tensor::from(2.0_f64.ln()));
        let ignored = CrossEntropy::new().ignored_label(255);
        let labels = Tensor::from([255]).convert(DType::U8);
        assert_eq!(ignored.losses(&logits, &labels), Tensor::from([0.0]));
    }

    #[test]
    fn mistakes_are_named() {
        let logits = Tensor::from([[0.5, 0.5]]);
        let error = CrossEntropy::new()
            .ignored_label(-1)
            .try_losses(&logits, &Tensor::from([2]))
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("CrossEntropy expects labels in 0..2, found 2 at position 0"),
            "{error}"
        );
        let weights = Tensor::from([1.0, 2.0, 3.0]);
        let error = CrossEntropy::new()
            .class_weights(&weights)
            .try_mean(&logits, &Tensor::from([1]))
            .unwrap_err();
        assert!(error.to_string().contains("class_weights"), "{error}");
    }
}
