//! Weight decay.

use pytree_core::{Module, Tree};
use pytree_transform::Tensor;

use crate::optimizers::transformation::check_number;
use crate::optimizers::{Chain, GradientTransformation};

/// Adds a multiple of each parameter to its update: see [`add_decayed_weights`].
#[derive(Module, Clone, Debug)]
pub struct AddDecayedWeights {
    #[r#static]
    weight_decay: f64,
}

/// Returns the transformation that adds `weight_decay` times each parameter to the update of the parameter. In a chain,
/// put this transformation before the learning rate.
pub fn add_decayed_weights(weight_decay: f64) -> Chain {
    Chain::of(AddDecayedWeights { weight_decay })
}

impl GradientTransformation for AddDecayedWeights {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        check_number("parameters", parameters.len(), gradients.len());
        let pairs = gradients.iter().zip(parameters);
        pairs
            .map(|(gradient, parameter)| gradient + parameter * self.weight_decay)
            .collect()
    }
}
