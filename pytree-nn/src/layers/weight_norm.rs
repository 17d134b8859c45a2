//! Weight normalisation, which separates a weight into a direction and a length.

use pytree_core::{Filter, Module};
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

use crate::error::InputError;
use crate::layers::forward::{Forward, fallible_forward};
use crate::layers::rewriting::{WrapError, rewritten, selected_matrices, with_rewritten};
use crate::model::Model;

/// The lengths of one weight of a [`WeightNorm`].
#[derive(Module, Clone, Debug, PartialEq)]
pub struct WeightScale {
    /// The key path of the weight in the model.
    #[r#static]
    pub path: String,
    /// The axes of the weight over which its norm is computed: the inputs.
    #[r#static]
    pub inputs: Vec<usize>,
    /// The length for each output feature, initially 1. Its axes are the other axes of the weight.
    #[param("T[*features]", roles(feature))]
    pub scale: Tensor,
}

/// Replaces chosen weights V of a model by g · V / ‖V‖ (Salimans and Kingma 2016, "Weight normalization", equation 2).
///
/// Each output feature has its own norm ‖V‖ over all elements of the feature, and its own trained length g.
///
/// The roles of the axes of a weight tell its inputs from its output features; see
/// [`AxisRole`](pytree_core::axes::AxisRole). For example, a weight `[in, heads, head_dim]` of attention has a length for
/// each feature of each head. The model may have any type: [`normalized`](Self::normalized)
/// returns a copy of the model with g · V / ‖V‖ in place of V. If the model implements [`Forward`], `forward` applies
/// this copy. The length g is initially 1, as in Flax.
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{Linear, Rngs, WeightNorm};
/// use pytree_transform::{DType, Tensor};
/// let linear = Linear::new(4, 3, &mut Rngs::new(0));
/// let mut layer = WeightNorm::new(&linear, &Filter::param());
/// assert_eq!(layer.forward(&Tensor::ones(DType::F32, [2, 4])).shape(), [2, 3]);
/// let lengths = layer.normalized().weight.square().sum_axes([0]);
/// assert!((lengths - 1.0).abs().max().item::<f32>() < 1e-6);
/// ```
#[doc(alias("nnx.WeightNorm", "torch.nn.utils.parametrizations.weight_norm"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct WeightNorm<M> {
    /// The model with the directions V.
    pub model: M,
    /// The lengths, in the order of their weights in the model.
    pub scales: Vec<WeightScale>,
    /// The number added to ‖V‖² to avoid a division by zero. The default is 1e-12, as in Flax.
    #[r#static]
    pub epsilon: f64,
}

fallible_forward!([M: Model + Forward + std::fmt::Debug] WeightNorm<M>);

impl<M: Model> WeightNorm<M> {
    /// Normalises each weight that the filter selects. A weight is a parameter with inputs and outputs, so biases are left
    /// out. Draws no keys.
    ///
    /// # Panics
    /// If the filter selects no weight, has an unknown path, or selects a parameter with at least two axes whose field
    /// declares no roles.
    #[panicking_twin(new)]
    pub fn try_new(model: &M, filter: &Filter) -> Result<Self, WrapError> {
        let weights = selected_matrices("normalise weights", model, filter)?.into_iter();
        let scales = weights.map(|(path, weight, layout)| {
            let lengths = weight.shape().iter().enumerate();
            let features = lengths.filter(|(axis, _)| !layout.rows.contains(axis));
            let features: Vec<usize> = features.map(|(_, &length)| length).collect();
            WeightScale {
                path: path.to_string(),
                inputs: layout.rows,
                scale: Tensor::ones(weight.dtype(), features),
            }
        });
        let scales = scales.collect();
        Ok(Self {
            model: model.clone(),
            scales,
            epsilon: 1e-12,
        })
    }

    /// Returns the model with g · V / ‖V‖ in place of each chosen weight V. The result is a copy with its own references and
    /// shared nodes.
    ///
    /// # Panics
    /// If the shape or the dtype of a length does not fit its weight.
    #[must_use]
    #[track_caller]
    pub fn normalized(&self) -> M {
        rewritten(&self.model, normalise(&self.scales, self.epsilon)).0
    }
}

/// Returns the function that normalises the weight at a path. It returns `None` for a path without a length.
fn normalise(scales: &[WeightScale], epsilon: f64) -> impl Fn(&str, &Tensor) -> Option<Tensor> {
    move |path, weight| {
        let scale = scales.iter().find(|scale| scale.path == path)?;
        let inputs: Vec<isize> = scale.inputs.iter().map(|axis| axis.cast_signed()).collect();
        let factor = (weight.square().sum_keep(&inputs) + epsilon).rsqrt();
        Some(weight * factor * scale.scale.expand_dims(&inputs))
    }
}

impl<M: Model + Forward> WeightNorm<M> {
    /// Applies the model with the normalised weights. The states that the model writes are stored in
    /// [`model`](Self::model).
    ///
    /// # Panics
    /// If `x` does not fit the model.
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        let normalise = normalise(&self.scales, self.epsilon);
        with_rewritten(&mut self.model, normalise, |model| model.try_forward(x))
    }
}
