//! Normalisation of each example by itself.

use pytree_core::Module;
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use super::statistics::{Normalization, parameters};
use crate::error::InputError;
use crate::initializers::Initializer;
use crate::random::Rngs;

/// (x - mean) / √(variance + ε) · scale + bias, with mean and variance of each example (Ba et al. 2016,
/// equation 3).
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
    /// What the normalised features are multiplied by: `[features]`.
    #[param]
    pub scale: Option<Tensor>,
    /// What is added then: `[features]`.
    #[param]
    pub bias: Option<Tensor>,
    /// What is added to the variance, so that no division is by zero: 1e-6, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axes that statistics are taken over: -1, the last.
    #[r#static]
    pub reduction_axes: Vec<isize>,
    /// The axes along which scale and bias differ: -1, the last. Of several, the parameters are in row-major
    /// order.
    #[r#static]
    pub feature_axes: Vec<isize>,
    /// Whether the variance is `E[x²] - E[x]²`, which takes one pass, or `E[(x - E[x])²]`, which loses no digits
    /// where the mean is large: true, as in Flax.
    #[r#static]
    pub use_fast_variance: bool,
}

impl LayerNorm {
    /// A layer in f32: the scale begins with ones, the bias with zeros.
    ///
    /// Draws two keys of the stream `params`, as in Flax, so that layers made after it begin as there.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, rngs: &mut Rngs) -> Self {
        let (scale, bias) = (Some(Initializer::Ones), Some(Initializer::Zeros));
        Self::with_initializers(features, DType::F32, scale, bias, rngs)
    }

    /// A layer of the given element type and beginnings; without the scale or bias that has none. Draws a key
    /// for each.
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

    /// `x: [.., features]`, or with the features on `feature_axes`, to the same shape.
    ///
    /// # Panics
    /// If `x` has not as many features, or another element type.
    #[panicking_twin(forward)]
    #[track_caller]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, None)
    }

    /// As [`forward`](Self::forward), with statistics of those elements only where `mask` is true: bools of a
    /// shape that broadcasts to that of `x`. All elements are normalised.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if the mask does not fit `x`.
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

/// `x / √(E[x²] + ε) · scale`, with the mean square of each example (Zhang and Sennrich 2019, equation 4).
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
    /// What the normalised features are multiplied by: `[features]`.
    #[param]
    pub scale: Option<Tensor>,
    /// What is added to the mean square, so that no division is by zero: 1e-6, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axes that the mean square is taken over: -1, the last.
    #[r#static]
    pub reduction_axes: Vec<isize>,
    /// The axes along which the scale differs: -1, the last. Of several, it is in row-major order.
    #[r#static]
    pub feature_axes: Vec<isize>,
}

impl RmsNorm {
    /// A layer in f32: the scale begins with ones.
    ///
    /// Draws a key of the stream `params`, as in Flax, so that layers made after it begin as there.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, rngs: &mut Rngs) -> Self {
        Self::with_initializers(features, DType::F32, Some(Initializer::Ones), rngs)
    }

    /// A layer of the given element type and beginning; without a scale if it has none, and no key is drawn.
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

    /// `x: [.., features]`, or with the features on `feature_axes`, to the same shape.
    ///
    /// # Panics
    /// If `x` has not as many features, or another element type.
    #[panicking_twin(forward)]
    #[track_caller]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        self.normalization().apply(x, None)
    }

    /// As [`forward`](Self::forward), with the mean square of those elements only where `mask` is true: bools
    /// of a shape that broadcasts to that of `x`. All elements are normalised.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if the mask does not fit `x`.
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
