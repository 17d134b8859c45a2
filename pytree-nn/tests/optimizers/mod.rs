//! Optimizers, schedules and transformations of gradients.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod accumulating;
mod equations;
mod goldens;
mod laws;
mod precision;
mod schedules;

use pytree_core::{Partition, Tree};
use pytree_nn::Optimizer;
use pytree_transform::Tensor;

/// A model that is a list of parameters.
type Parameters = Vec<Tensor>;

/// Applies gradients in the form of a compiled function.
fn updated(
    (mut optimizer, mut parameters, gradients): (Optimizer<Parameters>, Parameters, Parameters),
) -> (Optimizer<Parameters>, Parameters) {
    let gradients = Partition::from_tree(Tree::from_value(&gradients));
    optimizer.update(&mut parameters, &gradients);
    (optimizer, parameters)
}
