//! Normalisation of each feature of each example.

use super::statistics::{Normalization, positions};
use crate::layers::normalization::options::{NormOptions, VarianceFormula};
use crate::layers::prelude::*;

const INSTANCE_NORM: &str = "InstanceNorm";

/// Applies (x - mean) / √(variance + ε) · scale + bias (Ulyanov et al. 2016, "Instance normalization"). Each feature of
/// each example has its own mean and variance over the spatial axes.
///
/// `x` is `[batch, space…, features]`. Unlike [`BatchNorm`](crate::BatchNorm), the layer has no running statistics, so
/// its results are the same in training and in evaluation.
///
/// # Examples
/// ```
/// use pytree_nn::{InstanceNorm, Rngs};
/// use pytree_transform::Tensor;
/// let norm = InstanceNorm::new(1, &mut Rngs::new(0));
/// let y = norm.forward(&Tensor::from([[[1.0_f32], [3.0]], [[10.0], [30.0]]]));
/// let expected = Tensor::from([[[-1.0_f32], [1.0]], [[-1.0], [1.0]]]);
/// assert!((y - expected).abs().max().item::<f32>() < 1e-5);
/// ```
#[doc(alias("nnx.InstanceNorm", "nn.InstanceNorm1d", "nn.InstanceNorm2d"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct InstanceNorm {
    /// The factor of the normalised features.
    #[param("T[features]", roles(feature))]
    pub scale: Option<Tensor>,
    /// The bias, which is added to the scaled features.
    #[param("T[features]", roles(feature))]
    pub bias: Option<Tensor>,
    /// The number added to the variance to avoid a division by zero. The default is 1e-6, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axis of the features. The default is -1, the last. Axis 0 is the batch.
    #[r#static]
    pub axis: isize,
    /// The formula of the variance. The default is [`VarianceFormula::Accurate`].
    #[r#static]
    pub variance_formula: VarianceFormula,
}

fallible_forward!(InstanceNorm);

impl InstanceNorm {
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
            axis: -1,
            variance_formula: options.variance_formula,
        }
    }

    /// Normalises `x`. The first axis of `x` is the batch, and the features are along `axis`.
    ///
    /// # Panics
    /// If the number of features or the dtype of `x` is wrong, or if `x` has no spatial axis.
    #[shapes(x = "T: float[*shape]", return = "T[*shape]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        self.apply(x, None)
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
        self.apply(x, Some(mask))
    }

    #[track_caller]
    fn apply(&self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, InputError> {
        let feature_axis = positions(x, &[self.axis]).unwrap_or_default();
        let reduction_axes = (1..x.rank()).filter(|axis| !feature_axis.contains(axis));
        let reduction_axes: Vec<isize> = reduction_axes.map(usize::cast_signed).collect();
        if feature_axis.contains(&0) || reduction_axes.is_empty() {
            return Err(InputError::input(
                INSTANCE_NORM,
                "x: [batch, space.., features] with at least one spatial axis",
                x,
                "the statistics are those of the spatial axes: pass x with all its axes, and set `axis` to the axis of the features, which is not the batch axis 0",
            ));
        }
        let (scale, bias) = (self.scale.as_ref(), self.bias.as_ref());
        let normalization = Normalization {
            variance_formula: self.variance_formula,
            reduction_axes: &reduction_axes,
            feature_axes: &[self.axis],
            ..Normalization::new(INSTANCE_NORM, scale, bias, self.epsilon)
        };
        normalization.apply(x, mask)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use pytree_transform::DType;

    #[test]
    fn rows_without_space_are_refused() {
        let norm = InstanceNorm::new(3, &mut Rngs::new(0));
        let error = norm
            .try_forward(&Tensor::ones(DType::F32, [8, 3]))
            .unwrap_err();
        assert!(
            error.to_string().starts_with("InstanceNorm expects x: [batch, space.., features] with at least one spatial axis, found f32[8,3]"),
            "{error}"
        );
    }
}
