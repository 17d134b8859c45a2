//! Batch normalisation.

use pytree_core::kind::BatchStat;
use pytree_transform::axis_size;

use super::statistics::{Normalization, positions};
use crate::convert_floats::at_least_f32;
use crate::layers::mode::Mode;
use crate::layers::normalization::options::{NormOptions, VarianceFormula};
use crate::layers::prelude::*;

const BATCH_NORM: &str = "BatchNorm";

/// Applies (x - mean) / √(variance + ε) · scale + bias to each feature, with the mean and the variance of the feature
/// over all other axes (Ioffe and Szegedy 2015, algorithm 1).
///
/// In training, the layer uses the mean and the variance of the batch. The layer also sets the running statistics to
/// momentum · running + (1 - momentum) · batch, without a gradient. In [`Mode::Eval`], the layer uses the running
/// statistics and does not change them. As in Flax, the variance is the sum of the squared deviations divided by n, not
/// by n - 1.
///
/// Under `vmap` the layer receives one example. To compute statistics over the batch, set `axis_name` to the name of
/// the batch axis.
///
/// # Examples
/// ```
/// use pytree_nn::{BatchNorm, Rngs, eval};
/// use pytree_transform::{DType, Tensor, vmap_mut};
/// let mut norm = BatchNorm { momentum: 0.9, ..BatchNorm::new(1, &mut Rngs::new(0)) };
/// let x = Tensor::from([[1.0_f32], [3.0]]);
/// let y = norm.forward(&x);
/// assert!((y - Tensor::from([[-1.0_f32], [1.0]])).abs().max().item::<f32>() < 1e-4);
/// assert!((norm.mean.item::<f32>() - 0.2).abs() < 1e-6);
/// assert_eq!(eval(&norm).forward(&x).shape(), [2, 1]);
///
/// let mut norm = BatchNorm { axis_name: Some("batch".to_owned()), ..norm };
/// let each = vmap_mut(|(norm, x): (&mut BatchNorm, Tensor)| norm.forward(&x))
///     .in_axes((None, 0))
///     .axis_name("batch");
/// assert_eq!(each((&mut norm, x)).shape(), [2, 1]);
/// assert!((norm.mean.item::<f32>() - 0.38).abs() < 1e-6);
/// ```
#[doc(alias("nnx.BatchNorm", "nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct BatchNorm {
    /// The factor of the normalised features.
    #[param("T[features]", roles(feature))]
    pub scale: Option<Tensor>,
    /// The bias, which is added to the scaled features.
    #[param("T[features]", roles(feature))]
    pub bias: Option<Tensor>,
    /// The running mean, initially 0. If the parameters are half-precision floats, the running mean has the dtype f32,
    /// as in Flax.
    #[state(BatchStat, "float[features]")]
    pub mean: Tensor,
    /// The running variance, initially 1, with the dtype of `mean`.
    #[state(BatchStat, "float[features]")]
    pub variance: Tensor,
    /// The weight of the old running statistics in an update. The default is 0.99, as in Flax.
    #[r#static]
    pub momentum: f64,
    /// The number added to the variance to avoid a division by zero. The default is 1e-5, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axis of the features. The default is -1, the last.
    #[r#static]
    pub axis: isize,
    /// The name of a batch axis of an enclosing `vmap`. Statistics are also taken over this axis. The default is
    /// `None`.
    #[r#static]
    pub axis_name: Option<String>,
    /// The formula of the variance. The default is [`VarianceFormula::Accurate`].
    #[r#static]
    pub variance_formula: VarianceFormula,
    /// The mode. The layer uses the statistics of the batch in [`Mode::Train`], and the running statistics in
    /// [`Mode::Eval`].
    #[r#static]
    pub mode: Mode,
}

fallible_forward!(BatchNorm);

impl BatchNorm {
    /// Creates an f32 layer with ones for the scale and zeros for the bias.
    ///
    /// Draws two keys of the stream `params`, as Flax does, so that later layers get the same keys as in Flax.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, rngs: &mut Rngs) -> Self {
        Self::with_options(features, NormOptions::default(), rngs)
    }

    /// Creates a layer with the given options. Draws a key for each parameter.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(features: usize, options: NormOptions, rngs: &mut Rngs) -> Self {
        let [scale, bias] = options.parameters(features, rngs);
        Self {
            scale,
            bias,
            mean: at_least_f32(&Tensor::zeros(options.param_dtype, [features])),
            variance: at_least_f32(&Tensor::ones(options.param_dtype, [features])),
            momentum: 0.99,
            epsilon: options.epsilon.unwrap_or(1e-5),
            axis: -1,
            axis_name: None,
            variance_formula: options.variance_formula,
            mode: Mode::Train,
        }
    }

    /// Normalises `x`, whose features are along `axis`.
    ///
    /// # Panics
    /// If the number of features or the dtype of `x` is wrong, if in training there are fewer than two values for each
    /// feature, or if no enclosing batch axis has the name `axis_name`.
    ///
    /// # Errors
    /// Returns [`InputError`] with the expected and the found input. The running statistics do not change. If no batch
    /// axis has the name `axis_name`, the method panics and returns no error.
    #[shapes(x = "T: float[*shape]", return = "T[*shape]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        self.apply(x, None)
    }

    /// Normalises all elements like [`forward`](Self::forward), but takes statistics only over the elements where
    /// `mask` is true.
    ///
    /// A mask with fewer axes than `x` belongs to the first axes of `x`: `bool[batch]` is the mask of examples that
    /// `pytree::data::Batches::padded` returns. A mask with as many axes as `x` broadcasts to the shape of
    /// `x`.
    ///
    /// # Panics
    /// In the same cases as [`forward`](Self::forward), and if the mask is not a tensor of bools or does not broadcast
    /// to the shape of `x`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{BatchNorm, Rngs};
    /// use pytree_transform::Tensor;
    /// let mut norm = BatchNorm::new(2, &mut Rngs::new(0));
    /// let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0], [0.0, 0.0]]);
    /// norm.forward_masked(&x, &Tensor::from([true, true, false]));
    /// ```
    #[shapes(x = "T: float[*shape]", mask = "bool[...]", return = "T[*shape]")]
    #[panicking_twin(forward_masked)]
    pub fn try_forward_masked(&mut self, x: &Tensor, mask: &Tensor) -> Result<Tensor, InputError> {
        self.apply(x, Some(mask))
    }

    #[track_caller]
    fn apply(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, InputError> {
        let feature_axis = positions(x, &[self.axis]).unwrap_or_default();
        let reduction_axes = (0..x.rank()).filter(|axis| !feature_axis.contains(axis));
        let reduction_axes: Vec<isize> = reduction_axes.map(usize::cast_signed).collect();
        let (scale, bias) = (self.scale.as_ref(), self.bias.as_ref());
        let normalization = Normalization {
            array: Some(&self.mean),
            variance_formula: self.variance_formula,
            axis_name: self.axis_name.as_deref(),
            reduction_axes: &reduction_axes,
            feature_axes: &[self.axis],
            ..Normalization::new(BATCH_NORM, scale, bias, self.epsilon)
        };
        let mask = mask.map(|mask| of_first_axes(mask, x)).transpose()?;
        let mask = normalization.check(x, mask.as_ref())?;
        if self.mode == Mode::Eval {
            let mean = at_least_f32(&normalization.along_features(&self.mean, x));
            let variance = normalization.along_features(&self.variance, x);
            return Ok(normalization.normalize(x, &(at_least_f32(x) - mean), &variance));
        }
        self.check_count(x, &reduction_axes)?;
        let found = normalization.statistics(x, mask.as_ref());
        let y = normalization.normalize(x, &found.centred, &found.variance);
        if let Some(mean) = found.mean {
            self.mean = self.moved(&self.mean, &mean);
        }
        self.variance = self.moved(&self.variance, &found.variance);
        Ok(y)
    }

    /// Returns an error if a batch has fewer than two values for a feature.
    #[track_caller]
    fn check_count(&self, x: &Tensor, reduction_axes: &[isize]) -> Result<(), InputError> {
        let lengths = reduction_axes
            .iter()
            .map(|axis| x.shape()[axis.unsigned_abs()]);
        let examples = match self.axis_name.as_deref() {
            Some(name) => axis_size(name),
            None => 1,
        };
        let count = lengths.product::<usize>() * examples;
        if count > 1 {
            return Ok(());
        }
        let expected = match reduction_axes {
            [] => format!("x: [batch, .., {}] in training", self.mean.len()),
            _ => "at least 2 values for each feature in training".to_owned(),
        };
        let fix = if count == 0 {
            "statistics of no values are NaN, and would stay in the running statistics: skip empty batches"
        } else {
            "the mean of a single value is the value itself, so the normalized values would be zero: pass a batch of several examples, call `eval(&model)` to use the running statistics or, under vmap, name the batch axis in `axis_name`"
        };
        Err(InputError::input(BATCH_NORM, expected, x, fix))
    }

    /// Returns a running statistic after its update with the statistic of a batch.
    #[track_caller]
    fn moved(&self, running: &Tensor, batch: &Tensor) -> Tensor {
        let batch = batch.reshape(running.shape());
        let moved = at_least_f32(running) * self.momentum + batch * (1.0 - self.momentum);
        moved.convert(running.dtype()).stop_gradient()
    }
}

/// Returns a mask with axes of length 1 in place of the last axes of `x` that it lacks.
#[track_caller]
fn of_first_axes(mask: &Tensor, x: &Tensor) -> Result<Tensor, InputError> {
    let Some(missing) = x
        .rank()
        .checked_sub(mask.rank())
        .filter(|&missing| missing > 0)
    else {
        return Ok(mask.clone());
    };
    if !x.shape().starts_with(mask.shape()) {
        let shape = x.shape();
        let expected = format!(
            "a bool mask of the first axes of the shape {shape:?}, or one that broadcasts to it with {} axes",
            x.rank()
        );
        let fix = "set the mask to true for each element to use; an axis of length 1 repeats the mask along that axis";
        return Err(InputError::input(BATCH_NORM, expected, mask, fix));
    }
    Ok(mask.reshape([mask.shape(), &vec![1; missing]].concat()))
}
