//! `AdaDelta`.

use crate::optimizers::prelude::*;

/// The options of [`adadelta_with`] and [`scale_by_adadelta`], with the defaults of `optax.adadelta`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct AdadeltaOptions {
    /// The weight of the old means when the running means are updated; by default 0.9.
    #[default(0.9)]
    pub decay: f64,
    /// The number that is added to both means before the root is taken; by default 10⁻⁶.
    #[default(1e-6)]
    pub epsilon: f64,
}

/// Returns `AdaDelta` with its default options: see [`scale_by_adadelta`]. The paper uses a learning rate of 1. For a
/// weight decay, put [`add_decayed_weights`](crate::add_decayed_weights) before this chain.
///
/// # Examples
/// ```
/// use pytree_nn::{adadelta, add_decayed_weights, chain};
/// let decayed = chain([add_decayed_weights(1e-4), adadelta(1.0)]);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.adadelta", "torch.optim.Adadelta"))]
#[track_caller]
pub fn adadelta(learning_rate: impl Into<Schedule>) -> Chain {
    adadelta_with(learning_rate, AdadeltaOptions::default())
}

/// Returns `AdaDelta` with options: see [`scale_by_adadelta`].
///
/// # Examples
/// ```
/// use pytree_nn::{AdadeltaOptions, adadelta_with};
/// let adadelta = adadelta_with(1.0, AdadeltaOptions { decay: 0.95, ..AdadeltaOptions::default() });
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn adadelta_with(learning_rate: impl Into<Schedule>, options: AdadeltaOptions) -> Chain {
    scale_by_adadelta(options).descend(learning_rate)
}

/// Multiplies gradients by the root mean square of past updates, and divides the products by the root mean square of
/// past gradients.
#[derive(Module, Clone, Debug)]
struct ScaleByAdadelta {
    #[state(OptState)]
    square_gradients: Tree<Tensor>,
    #[state(OptState)]
    square_updates: Tree<Tensor>,
    #[r#static]
    options: AdadeltaOptions,
}

/// Returns `AdaDelta` without the learning rate (Zeiler 2012, "ADADELTA: an adaptive learning rate method", algorithm
/// 1).
///
/// v ← decay · v + (1 - decay) g², the update is u = √(w + ε) / √(v + ε) · g, and afterwards
/// w ← decay · w + (1 - decay) u².
///
/// # Examples
/// ```
/// use pytree_nn::{AdadeltaOptions, scale_by_adadelta};
/// assert_eq!(scale_by_adadelta(AdadeltaOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If an option is out of its range: the decay is not from 0 to 1, or ε is negative or not finite.
#[doc(alias = "optax.scale_by_adadelta")]
#[track_caller]
pub fn scale_by_adadelta(options: AdadeltaOptions) -> Chain {
    fraction("scale_by_adadelta", "decay", options.decay);
    not_negative("scale_by_adadelta", "epsilon", options.epsilon);
    Chain::of(ScaleByAdadelta {
        square_gradients: Tree::none(),
        square_updates: Tree::none(),
        options,
    })
}

impl GradientTransformation for ScaleByAdadelta {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.square_gradients = zeros(parameters);
        self.square_updates = self.square_gradients.clone();
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.square_gradients.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let AdadeltaOptions { decay, epsilon } = self.options;
        let root = |mean: &Tensor| (mean + epsilon).sqrt();
        let states = [&mut self.square_gradients, &mut self.square_updates];
        each(states, gradients, |[of_gradients, of_updates], gradient| {
            *of_gradients = running_square_mean(of_gradients, &gradient, decay);
            let update = root(of_updates) / root(of_gradients) * gradient;
            *of_updates = running_square_mean(of_updates, &update, decay);
            update
        })
    }
}
