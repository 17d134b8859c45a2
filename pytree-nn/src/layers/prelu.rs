//! The rectified linear unit with a trained slope.

use crate::layers::prelude::*;

/// Returns x if x ≥ 0, and otherwise x times a trained slope (He et al. 2015, "Delving deep into rectifiers", equation
/// 1).
///
/// # Examples
/// ```
/// use pytree_nn::PRelu;
/// use pytree_transform::Tensor;
/// let layer = PRelu::new(0.25);
/// assert_eq!(layer.forward(&Tensor::from([-4.0_f32, 2.0])).to_vec::<f32>(), [-1.0, 2.0]);
/// ```
#[doc(alias("nnx.PReLU", "nn.PReLU"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct PRelu {
    /// The factor of negative elements. The factor is converted to the dtype of the input, as in Flax.
    #[param("float[]")]
    pub negative_slope: Tensor,
}

fallible_forward!(PRelu);

impl Default for PRelu {
    /// Creates a layer with the slope 0.01, as in Flax. (In PyTorch, the slope is 0.25.)
    fn default() -> Self {
        Self::new(0.01)
    }
}

impl PRelu {
    /// Creates an f32 layer with the given initial slope.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the slope is rounded to f32"
    )]
    pub fn new(negative_slope: f64) -> Self {
        Self {
            negative_slope: Tensor::from(negative_slope as f32),
        }
    }

    /// Applies the function to each element. The result has the shape and the dtype of `x`.
    ///
    /// # Panics
    /// If `x` is not a tensor of floats.
    #[shapes(x = "T: float[*shape]", return = "T[*shape]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let slope = self.negative_slope.convert(x.dtype());
        x.greater_equal(0.0)
            .try_select(x, &(x * slope))
            .map_err(InputError::inside("PRelu"))
    }
}
