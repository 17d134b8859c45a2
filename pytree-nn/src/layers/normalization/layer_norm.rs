//! Normalisation of each example by the statistics of its own features.

use super::statistics::Normalization;
use crate::layers::normalization::options::{NormOptions, VarianceFormula};
use crate::layers::prelude::*;

/// Applies (x - mean) / √(variance + ε) · scale + bias, with the mean and the variance of each example (Ba et al.
/// 2016, equation 3).
///
/// # Examples
/// ```
/// use pytree_nn::{LayerNorm, Rngs};
/// use pytree_transform::Tensor;
/// let norm = LayerNorm::new(2, &mut Rngs::new(0));
/// let y = norm.forward(&Tensor::from([[1.0_f32, 3.0], [10.0, 30.0]]));
/// let expected = Tensor::from([[-1.0_f32, 1.0], [-1.0, 1.0]]);
/// assert!((y - expected).abs().max().item::<f32>() < 1e-5);
/// ```
#[doc(alias("nnx.LayerNorm", "nn.LayerNorm"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// The factor of the normalised features.
    #[param("T[features]", roles(feature))]
    pub scale: Option<Tensor>,
    /// The bias, which is added to the scaled features.
    #[param("T[features]", roles(feature))]
    pub bias: Option<Tensor>,
    /// The number added to the variance to avoid a division by zero. The default is 1e-6, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axes over which statistics are taken. The default is -1, the last axis.
    #[r#static]
    pub reduction_axes: Vec<isize>,
    /// The axes of the features, which have their own scale and bias. The default is -1, the last axis. If there are
    /// several axes, the parameters are in row-major order.
    #[r#static]
    pub feature_axes: Vec<isize>,
    /// The formula of the variance. The default is [`VarianceFormula::Accurate`].
    #[r#static]
    pub variance_formula: VarianceFormula,
}

fallible_forward!(LayerNorm);

impl LayerNorm {
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
            epsilon: options.epsilon.unwrap_or(1e-6),
            reduction_axes: vec![-1],
            feature_axes: vec![-1],
            variance_formula: options.variance_formula,
        }
    }

    /// Normalises `x`, whose features are along `feature_axes`.
    ///
    /// # Panics
    /// If the number of features or the dtype of `x` is wrong.
    #[shapes(x = "T: float[*shape]", return = "T[*shape]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, None)
    }

    /// Normalises all elements like [`forward`](Self::forward), but takes statistics only over the elements where
    /// `mask` is true. The mask broadcasts to the shape of `x`.
    ///
    /// # Panics
    /// In the same cases as [`forward`](Self::forward), and if the mask is not a tensor of bools or does not broadcast
    /// to the shape of `x`.
    #[shapes(x = "T: float[*shape]", mask = "bool[...]", return = "T[*shape]")]
    #[panicking_twin(forward_masked)]
    pub fn try_forward_masked(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, Some(mask))
    }

    fn normalization(&self) -> Normalization<'_> {
        let (scale, bias) = (self.scale.as_ref(), self.bias.as_ref());
        Normalization {
            variance_formula: self.variance_formula,
            reduction_axes: &self.reduction_axes,
            feature_axes: &self.feature_axes,
            ..Normalization::new("LayerNorm", scale, bias, self.epsilon)
        }
    }
}

/// Applies `x / √(E[x²] + ε) · scale`, with the mean square of each example (Zhang and Sennrich 2019, equation
/// 4).
///
/// # Examples
/// ```
/// use pytree_nn::{RmsNorm, Rngs};
/// use pytree_transform::Tensor;
/// let norm = RmsNorm::new(2, &mut Rngs::new(0));
/// let y = norm.forward(&Tensor::from([1.0_f32, 7.0]));
/// assert!((y - Tensor::from([0.2_f32, 1.4])).abs().max().item::<f32>() < 1e-6);
/// ```
#[doc(alias("nnx.RMSNorm", "nn.RMSNorm"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// The factor of the normalised features.
    #[param("T[features]", roles(feature))]
    pub scale: Option<Tensor>,
    /// The number added to the mean square to avoid a division by zero. The default is 1e-6, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axes over which the mean square is taken. The default is -1, the last axis.
    #[r#static]
    pub reduction_axes: Vec<isize>,
    /// The axes of the features, which have their own scale. The default is -1, the last axis. If there are several
    /// axes, the scale is in row-major order.
    #[r#static]
    pub feature_axes: Vec<isize>,
}

fallible_forward!(RmsNorm);

impl RmsNorm {
    /// Creates an f32 layer with ones for the scale.
    ///
    /// Draws a key of the stream `params`, as Flax does, so that later layers get the same keys as in Flax.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, rngs: &mut Rngs) -> Self {
        Self::with_options(features, NormOptions::default(), rngs)
    }

    /// Creates a layer with the given options. The layer has no bias and no variance, so the options for the bias and
    /// the variance have no effect. Draws a key if the layer has a scale.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(features: usize, options: NormOptions, rngs: &mut Rngs) -> Self {
        let without_bias = NormOptions {
            bias_init: None,
            ..options
        };
        let [scale, _] = without_bias.parameters(features, rngs);
        Self {
            scale,
            epsilon: options.epsilon.unwrap_or(1e-6),
            reduction_axes: vec![-1],
            feature_axes: vec![-1],
        }
    }

    /// Normalises `x`, whose features are along `feature_axes`.
    ///
    /// # Panics
    /// If the number of features or the dtype of `x` is wrong.
    #[shapes(x = "T: float[*shape]", return = "T[*shape]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, None)
    }

    /// Normalises all elements like [`forward`](Self::forward), but takes the mean square only over the elements where
    /// `mask` is true. The mask broadcasts to the shape of `x`.
    ///
    /// # Panics
    /// In the same cases as [`forward`](Self::forward), and if the mask is not a tensor of bools or does not broadcast
    /// to the shape of `x`.
    #[shapes(x = "T: float[*shape]", mask = "bool[...]", return = "T[*shape]")]
    #[panicking_twin(forward_masked)]
    pub fn try_forward_masked(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, Some(mask))
    }

    fn normalization(&self) -> Normalization<'_> {
        Normalization {
            is_centred: false,
            reduction_axes: &self.reduction_axes,
            feature_axes: &self.feature_axes,
            ..Normalization::new("RmsNorm", self.scale.as_ref(), None, self.epsilon)
        }
    }
}
