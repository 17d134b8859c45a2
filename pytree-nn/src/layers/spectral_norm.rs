//! Spectral normalisation, which divides a weight by its largest singular value.

use pytree_core::Filter;
use pytree_core::kind::BatchStat;

use crate::convert_floats::{at_least_f32, at_least_f32_dtype};
use crate::initializers::Initializer;
use crate::layers::forward::Forward;
use crate::layers::matrix_layout::MatrixLayout;
use crate::layers::mode::Mode;
use crate::layers::prelude::*;
use crate::layers::rewriting::{WrapError, selected_matrices, with_rewritten};
use crate::model::Model;

/// The state of one weight of a [`SpectralNorm`].
#[derive(Module, Clone, Debug, PartialEq)]
pub struct SpectralState {
    /// The key path of the weight in the model.
    #[r#static]
    pub path: String,
    /// The axes of the weight that are the rows and the columns of its matrix.
    #[r#static]
    pub layout: MatrixLayout,
    /// The approximate singular vector: `[batch…, 1, features]`.
    #[state(BatchStat, "float[*batch 1 features]")]
    pub u: Tensor,
    /// The approximate largest singular value, initially 1: `[batch…]`.
    #[state(BatchStat, "float[*batch]")]
    pub sigma: Tensor,
}

impl SpectralState {
    /// Updates this state, and returns the weight divided by its largest singular value.
    #[track_caller]
    fn divide(&mut self, weight: &Tensor, steps: usize, epsilon: f64) -> Tensor {
        let matrix = self.layout.matrix(&at_least_f32(weight));
        let transposed = matrix.swap_axes(-1, -2);
        let normalized = |x: Tensor| &x * (x.square().sum_keep([-1]) + epsilon).rsqrt();
        let mut v = Tensor::zeros_like(&matrix.sum_keep([-1]).swap_axes(-1, -2));
        for _ in 0..steps {
            v = normalized(self.u.matmul(&transposed));
            self.u = normalized(v.matmul(&matrix));
        }
        (v, self.u) = (v.stop_gradient(), self.u.stop_gradient());
        let sigma = v.matmul(&matrix).matmul(&self.u.swap_axes(-1, -2));
        self.sigma = sigma.squeeze([-1, -2]).stop_gradient();
        let divisor = sigma
            .not_equal(0.0)
            .select(&sigma, Tensor::ones_like(&sigma));
        let divided = self.layout.weight(&(matrix / divisor), weight.shape());
        divided.convert(weight.dtype())
    }
}

/// Divides each weight W of a layer by its largest singular value σ, so that the divided weight does not increase the
/// norm of a vector (Miyato et al. 2018, "Spectral normalization", algorithm 1).
///
/// The value σ = v W uᵀ is approximated by `steps` steps of the power iteration: v = u Wᵀ / ‖u Wᵀ‖, u = v W / ‖v W‖. In
/// training, u and σ are stored, so that the approximation improves from call to call. In [`Mode::Eval`], u and σ are
/// not stored.
///
/// A weight is a parameter with inputs and outputs. The roles of its axes determine the rows and the columns of the matrix
/// W; see [`MatrixLayout`]. A weight with batch axes is a matrix for each index along these axes. The stored weights do not change. (`SpectralNorm` of Flax NNX overwrites the
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

fallible_forward!([M: Model + Forward + std::fmt::Debug] SpectralNorm<M>);

impl<M: Model + Forward> SpectralNorm<M> {
    /// Normalises each weight that the filter selects. For each weight, draws a key of the stream `params` for the
    /// initial u, which is normally distributed with the standard deviation 0.01.
    ///
    /// # Panics
    /// If the filter selects no weight, has an unknown path, or selects a parameter with at least two axes whose field
    /// declares no roles, or if there is no stream to draw from.
    #[panicking_twin(new)]
    pub fn try_new(model: &M, filter: &Filter, rngs: &mut Rngs) -> Result<Self, WrapError> {
        let mut states = Vec::new();
        for (path, weight, layout) in selected_matrices("normalise weights", model, filter)? {
            let shape = layout.matrix_shape(weight.shape()).unwrap_or_default();
            if let [batch @ .., _, features] = &shape[..] {
                let (key, dtype) = (rngs.params(), at_least_f32_dtype(weight.dtype()));
                let u = [batch, &[1, *features]].concat();
                states.push(SpectralState {
                    path: path.to_string(),
                    layout,
                    u: Initializer::Normal(0.01).initialize(&key, dtype, &u),
                    sigma: Tensor::ones(dtype, batch),
                });
            }
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
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        let mut states = self.states.clone();
        let (steps, epsilon) = (self.steps, self.epsilon);
        let divide = |path: &str, weight: &Tensor| {
            let state = states.iter_mut().find(|state| state.path == path)?;
            Some(state.divide(weight, steps, epsilon))
        };
        let y = with_rewritten(&mut self.model, divide, |model| model.try_forward(x))?;
        if self.mode == Mode::Train {
            self.states = states;
        }
        Ok(y)
    }
}
