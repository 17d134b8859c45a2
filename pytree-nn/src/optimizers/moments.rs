//! Running means of gradients, and the correction of their bias.

use pytree_core::{Static, Tree};
use pytree_transform::{DType, Tensor};

use crate::hyperparameter::Hyperparameter;
use crate::optimizers::transformation::{Scalar, check_number};

/// How an update is computed from the weighted sum t of past gradients: see [`trace`](crate::trace()).
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Momentum {
    /// The update is the sum t (Polyak 1964, "Some methods of speeding up the convergence of iteration methods").
    Classical,
    /// The update is g + decay · t for the gradient g, as if the gradient were computed one step ahead (Nesterov 1983,
    /// in the form of Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning").
    Nesterov,
}

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

/// The factors that correct the bias of Adam's means m of the gradients and v of their squares: m̂ and v̂ in the formulas.
pub(super) struct Corrections {
    beta1: Hyperparameter,
    of_mean: Scalar,
    /// The factor of the gradient in m̂, for Nesterov's momentum.
    of_gradient: Option<Scalar>,
    of_square: Scalar,
}

impl Corrections {
    pub(super) fn new(
        beta1: impl Into<Hyperparameter>,
        beta2: impl Into<Hyperparameter>,
        momentum: Momentum,
        time: &Tensor,
    ) -> Self {
        let beta1 = beta1.into();
        let (of_mean, of_gradient) = match momentum {
            Momentum::Classical => (correction(&beta1, time), None),
            Momentum::Nesterov => {
                let of_mean = correction(&beta1, &(time + 1.0));
                (of_mean, Some(correction(&beta1, time)))
            }
        };
        Self {
            beta1,
            of_mean,
            of_gradient,
            of_square: correction(beta2, time),
        }
    }

    /// Returns m̂ for the mean m and a gradient.
    pub(super) fn mean(&mut self, mean: &Tensor, gradient: &Tensor) -> Tensor {
        let dtype = gradient.dtype();
        let corrected = mean * self.of_mean.of_type(dtype);
        match &mut self.of_gradient {
            None => corrected,
            Some(factor) => {
                let gradient = gradient * factor.of_type(dtype);
                running_mean(&corrected, &gradient, &self.beta1)
            }
        }
    }

    /// Returns v̂ for the mean square v.
    pub(super) fn square(&mut self, square_mean: &Tensor) -> Tensor {
        square_mean * self.of_square.of_type(square_mean.dtype())
    }
}

/// Returns the update of each gradient by `rule`, which also receives the states of the parameter and replaces them.
///
/// # Panics
/// If the number of gradients differs from the number of parameters.
pub(super) fn each<const N: usize>(
    states: [&mut Tree<Tensor>; N],
    gradients: Vec<Tensor>,
    mut rule: impl FnMut([&mut Tensor; N], Tensor) -> Tensor,
) -> Vec<Tensor> {
    let mut states = states.map(Tree::leaves_mut);
    check_number("states", states[0].len(), gradients.len());
    let gradients = gradients.into_iter().enumerate();
    gradients
        .map(|(at, gradient)| rule(states.each_mut().map(|states| &mut states[at]), gradient))
        .collect()
}
