//! Momentum.

use crate::optimizers::moments::Momentum;
use crate::optimizers::prelude::*;

/// Returns stochastic gradient descent with momentum: see [`trace`].
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Momentum, Optimizer, Rngs, sgd_momentum};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let optimizer = Optimizer::new(&model, sgd_momentum(0.1, 0.9, Momentum::Nesterov));
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if `decay` is not from 0 to 1.
#[doc(alias("optax.sgd", "torch.optim.SGD"))]
#[track_caller]
pub fn sgd_momentum(learning_rate: impl Into<Schedule>, decay: f64, momentum: Momentum) -> Chain {
    trace(decay, momentum).descend(learning_rate)
}

/// Sums past gradients with decaying weights: see [`trace`].
#[derive(Module, Clone, Debug)]
pub struct Trace {
    /// The weighted sums of past gradients, t.
    #[state(OptState)]
    sums: Tree<Tensor>,
    decay: Hyperparameter,
    #[r#static]
    momentum: Momentum,
}

/// Returns the transformation that computes t ← g + `decay` · t for each gradient g. The update is t with
/// [`Momentum::Classical`], and g + `decay` · t with [`Momentum::Nesterov`].
///
/// # Panics
/// If `decay` is not from 0 to 1.
#[doc(alias = "optax.trace")]
#[track_caller]
pub fn trace(decay: f64, momentum: Momentum) -> Chain {
    fraction("trace", "decay", decay);
    Chain::of(Trace {
        sums: Tree::none(),
        decay: decay.into(),
        momentum,
    })
}

impl GradientTransformation for Trace {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.sums = zeros(parameters);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.sums.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        each([&mut self.sums], gradients, |[sum], gradient| {
            *sum = &gradient + self.decay.times(sum);
            match self.momentum {
                Momentum::Classical => sum.clone(),
                Momentum::Nesterov => gradient + self.decay.times(sum),
            }
        })
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        vec![NamedHyperparameter::fraction("decay", &mut self.decay)]
    }
}
