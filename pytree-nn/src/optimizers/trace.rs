//! Momentum.

use pytree_core::kind::OptState;
use pytree_core::{Module, Tree};
use pytree_transform::{AbstractArray, Tensor};

use crate::optimizers::transformation::{check_number, differing};
use crate::optimizers::{Chain, GradientTransformation, chain, scale_by_learning_rate};

/// Returns stochastic gradient descent with momentum: see [`trace`].
pub fn sgd_momentum(learning_rate: f64, momentum: f64, nesterov: bool) -> Chain {
    chain([
        trace(momentum, nesterov),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Sums past gradients with decaying weights: see [`trace`].
#[derive(Module, Clone, Debug)]
pub struct Trace {
    /// The weighted sums of past gradients, t.
    #[state(OptState)]
    sums: Tree<Tensor>,
    #[r#static]
    decay: f64,
    #[r#static]
    nesterov: bool,
}

/// Returns the transformation that computes t ← g + `decay` · t for each gradient g. The update is t or, with Nesterov
/// momentum, g + `decay` · t (Sutskever et al. 2013, "On the importance of initialization and momentum in deep
/// learning").
pub fn trace(decay: f64, nesterov: bool) -> Chain {
    Chain::of(Trace {
        sums: Tree::none(),
        decay,
        nesterov,
    })
}

impl GradientTransformation for Trace {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.sums = parameters.map(Tensor::zeros_like);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.sums.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        check_number("states", self.sums.leaves().len(), gradients.len());
        let (decay, nesterov) = (self.decay, self.nesterov);
        self.sums
            .leaves_mut()
            .iter_mut()
            .zip(gradients)
            .map(|(sum, gradient)| {
                *sum = &gradient + &*sum * decay;
                if nesterov {
                    gradient + &*sum * decay
                } else {
                    sum.clone()
                }
            })
            .collect()
    }
}
