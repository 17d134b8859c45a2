//! Normalisation of each example on its own.

use pytree_core::Module;
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use super::statistics::{Normalization, parameters};
use crate::error::InputError;
use crate::initializers::Initializer;
use crate::random::Rngs;

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
#[derive(Module, Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// The factor of the normalised features: `[features]`.
    #[param]
    pub scale: Option<Tensor>,
    /// The summand of the scaled features: `[features]`.
    #[param]
    pub bias: Option<Tensor>,
    /// The number added to the variance to avoid a division by zero: 1e-6, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axes over which statistics are taken; by default -1, the last.
    #[r#static]
    pub reduction_axes: Vec<isize>,
    /// The axes along which scale and bias differ; by default -1, the last. Parameters of more than one axis are
    /// in row-major order.
    #[r#static]
    pub feature_axes: Vec<isize>,
    /// Whether the variance is `E[x²] - E[x]²`, which reads the data once, or `E[(x - E[x])²]`, which is accurate
    /// for a large mean; by default true, as in Flax.
    #[r#static]
    pub use_fast_variance: bool,
}

impl LayerNorm {
    /// Creates an f32 layer with ones for the scale and zeros for the bias.
    ///
    /// Draws two keys of the stream `params`, as Flax does, so that later layers get the same keys as in Flax.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, rngs: &mut Rngs) -> Self {
        let (scale, bias) = (Some(Initializer::Ones), Some(Initializer::Zeros));
        Self::with_initializers(features, DType::F32, scale, bias, rngs)
    }

    /// Creates a layer with the given dtype and initializers. Without an initializer, the layer lacks the scale
    /// or the bias. Draws a key for each parameter.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if `dtype` is not a float.
    #[track_caller]
    pub fn with_initializers(
        features: usize,
        dtype: DType,
        scale: Option<Initializer>,
        bias: Option<Initializer>,
        rngs: &mut Rngs,
    ) -> Self {
        let [scale, bias] = parameters(features, dtype, scale, bias, rngs);
        Self {
            scale,
            bias,
            epsilon: 1e-6,
            reduction_axes: vec![-1],
            feature_axes: vec![-1],
            use_fast_variance: true,
        }
    }

    /// Normalises `x: [.., features]`, or `x` with the features along `feature_axes`, and returns the same shape.
    ///
    /// # Panics
    /// If the number of features or the dtype of `x` is wrong.
    #[panicking_twin(forward)]
    #[track_caller]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, None)
    }

    /// Normalises all elements like [`forward`](Self::forward), with statistics of the elements where `mask` is
    /// true. `mask` is a bool tensor that broadcasts to the shape of `x`.
    ///
    /// # Panics
    /// As for [`forward`](Self::forward), and if the mask does not fit `x`.
    #[panicking_twin(forward_masked)]
    #[track_caller]
    pub fn try_forward_masked(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, Some(mask))
    }

    fn normalization(&self) -> Normalization<'_> {
        Normalization {
            layer: "LayerNorm",
            scale: self.scale.as_ref(),
            bias: self.bias.as_ref(),
            epsilon: self.epsilon,
            is_centred: true,
            use_fast_variance: self.use_fast_variance,
            axis_name: None,
            reduction_axes: &self.reduction_axes,
            feature_axes: &self.feature_axes,
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
#[derive(Module, Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// The factor of the normalised features: `[features]`.
    #[param]
    pub scale: Option<Tensor>,
    /// The number added to the mean square to avoid a division by zero: 1e-6, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axes over which the mean square is taken; by default -1, the last.
    #[r#static]
    pub reduction_axes: Vec<isize>,
    /// The axes along which the scale differs; by default -1, the last. A scale of more than one axis is in
    /// row-major order.
    #[r#static]
    pub feature_axes: Vec<isize>,
}

impl RmsNorm {
    /// Creates an f32 layer with ones for the scale.
    ///
    /// Draws a key of the stream `params`, as Flax does, so that later layers get the same keys as in Flax.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, rngs: &mut Rngs) -> Self {
        Self::with_initializers(features, DType::F32, Some(Initializer::Ones), rngs)
    }

    /// Creates a layer with the given dtype and initializer. Without an initializer, the layer has no scale and
    /// draws no key.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if `dtype` is not a float.
    #[track_caller]
    pub fn with_initializers(
        features: usize,
        dtype: DType,
        scale: Option<Initializer>,
        rngs: &mut Rngs,
    ) -> Self {
        let [scale, _] = parameters(features, dtype, scale, None, rngs);
        Self {
            scale,
            epsilon: 1e-6,
            reduction_axes: vec![-1],
            feature_axes: vec![-1],
        }
    }

    /// Normalises `x: [.., features]`, or `x` with the features along `feature_axes`, and returns the same shape.
    ///
    /// # Panics
    /// If the number of features or the dtype of `x` is wrong.
    #[panicking_twin(forward)]
    #[track_caller]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, None)
    }

    /// Normalises all elements like [`forward`](Self::forward), with the mean square of the elements where `mask`
    /// is true. `mask` is a bool tensor that broadcasts to the shape of `x`.
    ///
    /// # Panics
    /// As for [`forward`](Self::forward), and if the mask does not fit `x`.
    #[panicking_twin(forward_masked)]
    #[track_caller]
    pub fn try_forward_masked(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, Some(mask))
    }

    fn normalization(&self) -> Normalization<'_> {
        Normalization {
            layer: "RmsNorm",
            scale: self.scale.as_ref(),
            bias: None,
            epsilon: self.epsilon,
            is_centred: false,
            use_fast_variance: true,
            axis_name: None,
            reduction_axes: &self.reduction_axes,
            feature_axes: &self.feature_axes,
        }
    }
}
