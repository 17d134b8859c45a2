//! Running means of gradients, and the correction of their bias.

use pytree_core::Tree;
use pytree_core::bug::pairs;
use pytree_transform::{DType, Tensor};

use crate::hyperparameter::Hyperparameter;
use crate::optimizers::transformation::Scalar;

/// Returns a tensor of zeros for each parameter. The tensor has the shape and the dtype of the parameter.
pub(super) fn zeros(parameters: &Tree<Tensor>) -> Tree<Tensor> {
    parameters.map(Tensor::zeros_like)
}

/// Returns a tensor filled with `value` for each parameter. The tensor has the shape and the dtype of the parameter.
pub(super) fn full(parameters: &Tree<Tensor>, value: f64) -> Tree<Tensor> {
    parameters.map(|parameter| Tensor::full_like(parameter, value))
}

/// Returns the running mean `mean · decay + new · (1 - decay)`.
pub(super) fn running_mean(
    mean: &Tensor,
    new: &Tensor,
    decay: impl Into<Hyperparameter>,
) -> Tensor {
    let decay = decay.into();
    decay.times(mean) + decay.rest().times(new)
}

/// Returns the running mean of squares, `mean · decay + new² · (1 - decay)`.
pub(super) fn running_square_mean(
    mean: &Tensor,
    new: &Tensor,
    decay: impl Into<Hyperparameter>,
) -> Tensor {
    running_mean(mean, &(new * new), decay)
}

/// Returns 1 / (1 - `decay`ᵗ), where t = `time` is the number of updates. The result is computed in f64, because an f32
/// difference would lose half its digits in the first updates.
pub(super) fn correction(decay: impl Into<Hyperparameter>, time: &Tensor) -> Scalar {
    Scalar::new(1.0 / (1.0 - decay.into().log().times(time).exp()))
}

/// Counts an update, and returns the new count in f64.
pub(super) fn count_update(count: &mut Tensor) -> Tensor {
    *count = &*count + 1;
    count.convert(DType::F64)
}

/// Returns √(`square` + `epsilon_root`) + `epsilon`. If one of the two is 0, no addition of 0 is traced.
pub(super) fn deviation(
    square: &Tensor,
    epsilon_root: impl Into<Hyperparameter>,
    epsilon: impl Into<Hyperparameter>,
) -> Tensor {
    let root = epsilon_root.into().added_to(square).sqrt();
    epsilon.into().added_to(&root)
}

/// Returns `tensor` + `number`, or `tensor` if the number is 0.
pub(super) fn plus(tensor: &Tensor, number: f64) -> Tensor {
    Hyperparameter::from(number).added_to(tensor)
}

/// Returns both states of each parameter.
pub(super) fn two_states<'s>(
    first: &'s mut Tree<Tensor>,
    second: &'s mut Tree<Tensor>,
) -> impl Iterator<Item = (&'s mut Tensor, &'s mut Tensor)> {
    let (first, second) = (first.leaves_mut(), second.leaves_mut());
    pairs(first, second, "two states for each parameter")
}
