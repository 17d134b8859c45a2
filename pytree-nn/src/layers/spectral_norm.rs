//! Spectral normalisation, which divides a weight by its largest singular value.

use pytree_core::kind::BatchStat;
use pytree_core::{Filter, Module, partition};
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

use super::rewriting::{restored, rewritten};
use crate::convert_floats::{at_least_f32, at_least_f32_dtype};
use crate::error::InputError;
use crate::initializers::Initializer;
use crate::layers::{Forward, Mode, WrapError};
use crate::model::Model;
use crate::random::Rngs;

/// The state of one weight of a [`SpectralNorm`].
#[derive(Module, Clone, Debug, PartialEq)]
pub struct SpectralState {
    /// The key path of the weight in the model.
    #[r#static]
    pub path: String,
    /// The approximate singular vector: `[1, features]`.
    #[state(BatchStat, "float[1 features]")]
    pub u: Tensor,
    /// The approximate largest singular value, initially 1.
    #[state(BatchStat, "float[]")]
    pub sigma: Tensor,
}

/// Divides each weight W of a layer by its largest singular value σ, so that the divided weight does not increase the
/// norm of a vector (Miyato et al. 2018, "Spectral normalization", algorithm 1).
///
/// The value σ = v W uᵀ is approximated by `steps` steps of the power iteration: v = u Wᵀ / ‖u Wᵀ‖, u = v W / ‖v W‖. In
/// training, u and σ are stored, so that the approximation improves from call to call. In [`Mode::Eval`], u and σ are
/// not stored.
///
/// A weight is a parameter with at least two axes. A weight with more axes is reshaped to a matrix `[_, features]` with
/// the features of its last axis. The stored weights do not change. (`SpectralNorm` of Flax NNX overwrites the
/// weights.)
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{Linear, Rngs, SpectralNorm};
/// use pytree_transform::{DType, Tensor};
/// let mut rngs = Rngs::new(0);
/// let linear = Linear::new(4, 3, &mut rngs);
/// let mut layer = SpectralNorm::new(&linear, &Filter::param(), &mut rngs);
/// for _ in 0..30 {
///     assert_eq!(layer.forward(&Tensor::ones(DType::F32, [2, 4])).shape(), [2, 3]);
/// }
/// let first = layer.states[0].sigma.clone();
/// layer.forward(&Tensor::ones(DType::F32, [2, 4]));
/// assert!((first - &layer.states[0].sigma).abs().item::<f32>() < 1e-3);
/// ```
#[doc(alias("nnx.SpectralNorm", "torch.nn.utils.parametrizations.spectral_norm"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct SpectralNorm<M> {
    /// The layer with the weights W.
    pub model: M,
    /// The states, in the order of their weights in the layer.
    pub states: Vec<SpectralState>,
    /// The number of steps of the power iteration. The default is 1, as in Flax.
    #[r#static]
    pub steps: usize,
    /// The number added to squared norms to avoid a division by zero. The default is 1e-12, as in Flax.
    #[r#static]
    pub epsilon: f64,
    /// In [`Mode::Train`], each call stores the new states.
    #[r#static]
    pub mode: Mode,
}

impl<M: Model + Forward> SpectralNorm<M> {
    /// Normalises each weight that the filter selects. For each weight, draws a key of the stream `params` for the
    /// initial u, which is normally distributed with the standard deviation 0.01.
    ///
    /// # Panics
    /// If the filter selects no parameter with at least two axes, if the filter has an unknown path, or if there is no
    /// stream to draw from.
    #[panicking_twin(new)]
    #[track_caller]
    pub fn try_new(model: &M, filter: &Filter, rngs: &mut Rngs) -> Result<Self, WrapError> {
        let selected = partition::try_filter(model, &(Filter::param() & filter.clone()))?;
        let mut states = Vec::new();
        for (path, weight) in selected.iter_with_path() {
            if let [_, .., features] = *weight.shape() {
                let (key, dtype) = (rngs.params(), at_least_f32_dtype(weight.dtype()));
                states.push(SpectralState {
                    path: path.to_string(),
                    u: Initializer::Normal(0.01).initialize(&key, dtype, &[1, features]),
                    sigma: Tensor::ones(dtype, []),
                });
            }
        }
        if states.is_empty() {
            return Err(WrapError::no_weight(
                "normalise weights",
                "at least two axes",
                &selected,
            ));
        }
        Ok(Self {
            model: model.clone(),
            states,
            steps: 1,
            epsilon: 1e-12,
            mode: Mode::Train,
        })
    }

    /// Applies the layer with the divided weights.
    ///
    /// # Panics
    /// If `x` does not fit the layer.
    #[panicking_twin(forward)]
    #[track_caller]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        let mut states = self.states.clone();
        let (mut model, originals) = rewritten(&self.model, |path, weight| {
            let state = states.iter_mut().find(|state| state.path == path)?;
            Some(self.divided(weight, state))
        });
        let y = model.try_forward(x)?;
        self.model = restored(model, &originals);
        if self.mode == Mode::Train {
            self.states = states;
        }
        Ok(y)
    }

    /// Updates `state`, and returns the weight divided by its largest singular value.
    #[track_caller]
    fn divided(&self, weight: &Tensor, state: &mut SpectralState) -> Tensor {
        let features = weight.shape()[weight.rank() - 1];
        let matrix = at_least_f32(weight).reshape([weight.len() / features.max(1), features]);
        let normalized = |x: Tensor| &x * (x.square().sum() + self.epsilon).rsqrt();
        let mut v = Tensor::zeros(matrix.dtype(), [1, matrix.shape()[0]]);
        for _ in 0..self.steps {
            v = normalized(state.u.matmul(&matrix.t()));
            state.u = normalized(v.matmul(&matrix));
        }
        (v, state.u) = (v.stop_gradient(), state.u.stop_gradient());
        let sigma = v.matmul(&matrix).matmul(&state.u.t()).reshape([0_usize; 0]);
        state.sigma = sigma.stop_gradient();
        let divisor = sigma
            .not_equal(0.0)
            .select(&sigma, &Tensor::ones_like(&sigma));
        let divided = (matrix / divisor).reshape(weight.shape());
        divided.convert(weight.dtype())
    }
}
