//! Normalisation of groups of features.

use pytree_base::bug::expect_some;

use super::statistics::{CHECKED, Normalization, positions};
use crate::layers::normalization::options::{NormOptions, VarianceFormula};
use crate::layers::prelude::*;

const GROUP_NORM: &str = "GroupNorm";

/// Divides the features of each example into groups, and normalises each group with its own mean and variance, like
/// [`LayerNorm`](crate::LayerNorm) (Wu and He 2018, equation 1). The statistics are taken over all axes except the
/// first.
///
/// # Examples
/// ```
/// use pytree_nn::{GroupNorm, Rngs};
/// use pytree_transform::Tensor;
/// let norm = GroupNorm::new(4, 2, &mut Rngs::new(0));
/// let y = norm.forward(&Tensor::from([[1.0_f32, 3.0, 10.0, 30.0]]));
/// let expected = Tensor::from([[-1.0_f32, 1.0, -1.0, 1.0]]);
/// assert!((y - expected).abs().max().item::<f32>() < 1e-5);
/// ```
#[doc(alias("nnx.GroupNorm", "nn.GroupNorm"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct GroupNorm {
    /// The factor of the normalised features.
    #[param("T[features]", roles(feature))]
    pub scale: Option<Tensor>,
    /// The bias, which is added to the scaled features.
    #[param("T[features]", roles(feature))]
    pub bias: Option<Tensor>,
    /// The number of groups, which divides the number of features.
    #[r#static]
    pub groups: usize,
    /// The number added to the variance to avoid a division by zero. The default is 1e-6, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// The axes over which statistics are taken. These axes must include the last axis. `None` is the default, and
    /// means all axes except the batch axis 0.
    #[r#static]
    pub reduction_axes: Option<Vec<isize>>,
    /// The formula of the variance. The default is [`VarianceFormula::Accurate`].
    #[r#static]
    pub variance_formula: VarianceFormula,
}

fallible_forward!(GroupNorm);

impl GroupNorm {
    /// Creates an f32 layer with ones for the scale and zeros for the bias.
    ///
    /// Draws two keys of the stream `params`, as Flax does, so that later layers get the same keys as in Flax.
    ///
    /// # Panics
    /// If the number of groups does not divide the number of features, or if there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, groups: usize, rngs: &mut Rngs) -> Self {
        Self::with_options(features, groups, NormOptions::default(), rngs)
    }

    /// Creates a layer with the given options. Draws a key for each parameter.
    ///
    /// # Panics
    /// In the same cases as [`new`](Self::new), and if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        features: usize,
        groups: usize,
        options: NormOptions,
        rngs: &mut Rngs,
    ) -> Self {
        assert!(
            groups > 0 && features.is_multiple_of(groups),
            "GroupNorm expects the number of groups to divide the number of features, found {groups} groups and {features} features; choose a number of groups that divides {features}"
        );
        let [scale, bias] = options.parameters(features, rngs);
        Self {
            scale,
            bias,
            groups,
            epsilon: options.epsilon.unwrap_or(1e-6),
            reduction_axes: None,
            variance_formula: options.variance_formula,
        }
    }

    /// Normalises `x`. The first axis of `x` is the batch, and the last axis has the features.
    ///
    /// # Panics
    /// If the number of features or the dtype of `x` is wrong.
    #[shapes(x = "T: float[*batch features]", return = "T[*batch features]")]
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
    #[shapes(
        x = "T: float[*batch features]",
        mask = "bool[...]",
        return = "T[*batch features]"
    )]
    #[panicking_twin(forward_masked)]
    pub fn try_forward_masked(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor, InputError> {
        self.apply(x, Some(mask))
    }

    /// Splits the last axis into two axes, the groups and the features of a group. After the split, normalises over the
    /// features of a group and the other reduction axes.
    #[track_caller]
    fn apply(&self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, InputError> {
        let (scale, bias) = (self.scale.as_ref(), self.bias.as_ref());
        let whole = Normalization {
            variance_formula: self.variance_formula,
            reduction_axes: self.reduction_axes.as_deref().unwrap_or(&[-1]),
            ..Normalization::new(GROUP_NORM, scale, bias, self.epsilon)
        };
        let mask = whole.check(x, mask)?;
        let last = x.rank() - 1;
        let reduced = match &self.reduction_axes {
            Some(axes) => expect_some(positions(x, axes), CHECKED),
            None => (1.min(last)..=last).collect(),
        };
        let features = x.shape()[last];
        if self.groups == 0 || !features.is_multiple_of(self.groups) || !reduced.contains(&last) {
            let groups = self.groups;
            let expected = format!(
                "x: [batch, .., features] with a number of features that is a multiple of {groups}, and reduction axes that contain the last axis"
            );
            let fix = "choose a number of groups that divides the number of features, and add the last axis to the reduction axes";
            return Err(InputError::input(GROUP_NORM, expected, x, fix));
        }
        let mut shape = x.shape().to_vec();
        shape.splice(last.., [self.groups, features / self.groups]);
        let outer = reduced.iter().filter(|&&axis| axis < last);
        let mut axes: Vec<isize> = outer.map(|&axis| axis.cast_signed()).collect();
        axes.push(-1);
        let grouped = Normalization {
            reduction_axes: &axes,
            feature_axes: &[-2, -1],
            ..whole
        };
        let groups = x.reshape(&shape);
        let mask = mask.map(|mask| mask.reshape(&shape));
        let found = grouped.statistics(&groups, mask.as_ref());
        let y = grouped.normalize(&groups, &found.centred, &found.variance);
        Ok(y.reshape(x.shape()))
    }
}
