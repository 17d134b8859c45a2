//! The options of a new normalisation layer.

use pytree_transform::{DType, Tensor};

use crate::initializers::Initializer;
use crate::random::Rngs;

/// The options that all normalisation layers share, with the names and defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{GroupNorm, LayerNorm, NormOptions, Rngs};
/// use pytree_transform::DType;
/// let mut rngs = Rngs::new(0);
/// let options = NormOptions { use_bias: false, param_dtype: DType::F64, ..NormOptions::default() };
/// let norm = LayerNorm::with_options(6, options, &mut rngs);
/// assert!(norm.bias.is_none());
/// let norm = GroupNorm::with_options(6, 2, options, &mut rngs);
/// assert_eq!(norm.scale.map(|scale| scale.dtype()), Some(DType::F64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormOptions {
    /// The dtype of the parameters and running statistics; by default f32.
    pub param_dtype: DType,
    /// Whether the normalised features are multiplied by a parameter; by default true.
    pub use_scale: bool,
    /// Whether a parameter is added to the scaled features; by default true.
    pub use_bias: bool,
    /// The initializer of the scale; by default ones.
    pub scale_init: Initializer,
    /// The initializer of the bias; by default zeros.
    pub bias_init: Initializer,
    /// The number added to the variance to avoid a division by zero; by default `None`, which means 1e-5 for
    /// [`BatchNorm`](crate::BatchNorm) and 1e-6 for the other layers.
    pub epsilon: Option<f64>,
    /// If true, the variance is computed as `E[x²] - E[x]²`, which reads the data once. If false, it is computed as
    /// `E[(x - E[x])²]`, which is accurate even for a large mean. The default is true.
    pub use_fast_variance: bool,
}

impl Default for NormOptions {
    fn default() -> Self {
        Self {
            param_dtype: DType::F32,
            use_scale: true,
            use_bias: true,
            scale_init: Initializer::Ones,
            bias_init: Initializer::Zeros,
            epsilon: None,
            use_fast_variance: true,
        }
    }
}

impl NormOptions {
    /// Creates the scale and the bias, each `[features]`, if the options have them. Draws a key for each created
    /// parameter, as Flax does.
    #[track_caller]
    pub(super) fn parameters(&self, features: usize, rngs: &mut Rngs) -> [Option<Tensor>; 2] {
        let wanted = [
            (self.use_scale, self.scale_init),
            (self.use_bias, self.bias_init),
        ];
        let mut made = [None, None];
        // No closure is used here, because a panic in a closure would not report the caller's line.
        for (parameter, (is_used, initializer)) in made.iter_mut().zip(wanted) {
            if is_used {
                let key = rngs.params();
                *parameter = Some(initializer.initialize(&key, self.param_dtype, &[features]));
            }
        }
        made
    }
}
