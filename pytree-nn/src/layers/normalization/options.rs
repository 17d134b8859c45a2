//! The options of a new normalisation layer.

use pytree_core::Static;
use pytree_derive::Defaults;
use pytree_transform::{DType, Tensor};

use crate::initializers::{Initializer, optional};
use crate::random::Rngs;

/// How a normalisation layer computes the variance of x: `use_fast_variance` in Flax.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum VarianceFormula {
    /// `E[x²] - E[x]²`, which reads the data only once: `use_fast_variance=True`, the default of Flax. The difference
    /// cancels digits: in f32, a mean of 1000 standard deviations makes an error of about 30 %.
    Fast,
    /// `E[(x - E[x])²]`, which is accurate even for a mean of 10⁶ standard deviations: `use_fast_variance=False`. This is
    /// the default.
    #[default]
    Accurate,
}

/// The options that all normalisation layers share, with the defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{GroupNorm, LayerNorm, NormOptions, Rngs};
/// use pytree_transform::DType;
/// let mut rngs = Rngs::new(0);
/// let options = NormOptions { bias_init: None, param_dtype: DType::F64, ..NormOptions::default() };
/// let norm = LayerNorm::with_options(6, options, &mut rngs);
/// assert!(norm.bias.is_none());
/// let norm = GroupNorm::with_options(6, 2, options, &mut rngs);
/// assert_eq!(norm.scale.map(|scale| scale.dtype()), Some(DType::F64));
/// ```
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct NormOptions {
    /// The dtype of the parameters and running statistics. The default is f32.
    #[default(DType::F32)]
    pub param_dtype: DType,
    /// The initializer of the scale, by which the normalised features are multiplied. The default is ones. `None` means
    /// that the layer has no scale.
    #[default(Some(Initializer::Ones))]
    pub scale_init: Option<Initializer>,
    /// The initializer of the bias, which is added to the scaled features. The default is zeros. `None` means that the
    /// layer has no bias.
    #[default(Some(Initializer::Zeros))]
    pub bias_init: Option<Initializer>,
    /// The number added to the variance to avoid a division by zero. The default is `None`, which means 1e-5 for
    /// [`BatchNorm`](crate::BatchNorm) and 1e-6 for the other layers.
    pub epsilon: Option<f64>,
    /// The formula of the variance. The default is [`VarianceFormula::Accurate`]. Flax's default is
    /// [`VarianceFormula::Fast`].
    pub variance_formula: VarianceFormula,
}

impl NormOptions {
    /// Creates the scale `[features]` and the bias `[features]`. A parameter is `None` if its initializer is `None`.
    /// Draws a key for each created parameter, as Flax does.
    #[track_caller]
    pub(super) fn parameters(&self, features: usize, rngs: &mut Rngs) -> [Option<Tensor>; 2] {
        let scale = optional(self.scale_init, self.param_dtype, [features], rngs);
        let bias = optional(self.bias_init, self.param_dtype, [features], rngs);
        [scale, bias]
    }
}
