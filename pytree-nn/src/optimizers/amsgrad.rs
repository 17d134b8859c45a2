//! `AMSGrad`: Adam with the maximum of all mean squares.

use crate::optimizers::moments::correction;
use crate::optimizers::prelude::*;

/// Whether a running mean that begins with 0 is corrected. The weights of the averaged values sum to 1 - βᵗ, so the
/// mean is too small without a correction.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum BiasCorrection {
    /// The mean is divided by 1 - βᵗ, the sum of its weights.
    Corrected,
    /// The mean is used without a correction.
    Uncorrected,
}

/// The options of [`amsgrad_with`] and [`scale_by_amsgrad`], with the defaults of `optax.amsgrad`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct AmsgradOptions {
    /// The weight of the old mean when the running mean of the gradients is updated; by default 0.9.
    #[default(0.9)]
    pub beta1: f64,
    /// The weight of the old mean when the running mean of the squared gradients is updated; by default 0.999.
    #[default(0.999)]
    pub beta2: f64,
    /// The number that is added to the root of the mean square; by default 10⁻⁸.
    #[default(1e-8)]
    pub epsilon: f64,
    /// The number that is added to the mean square before the root is taken; by default 0.
    #[default(0.0)]
    pub epsilon_root: f64,
    /// Whether the mean of the gradients is corrected; by default [`BiasCorrection::Corrected`].
    #[default(BiasCorrection::Corrected)]
    pub mean_correction: BiasCorrection,
    /// Whether the mean square is corrected; by default [`BiasCorrection::Corrected`].
    #[default(BiasCorrection::Corrected)]
    pub square_correction: BiasCorrection,
}

/// Returns `AMSGrad` with its default options: see [`scale_by_amsgrad`].
///
/// # Examples
/// ```
/// use pytree_nn::amsgrad;
/// assert_eq!(amsgrad(1e-3).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "optax.amsgrad")]
#[track_caller]
pub fn amsgrad(learning_rate: impl Into<Schedule>) -> Chain {
    amsgrad_with(learning_rate, AmsgradOptions::default())
}

/// Returns `AMSGrad` with options: see [`scale_by_amsgrad`].
///
/// # Examples
/// ```
/// use pytree_nn::{AmsgradOptions, amsgrad_with};
/// let amsgrad = amsgrad_with(1e-3, AmsgradOptions { beta2: 0.99, ..AmsgradOptions::default() });
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn amsgrad_with(learning_rate: impl Into<Schedule>, options: AmsgradOptions) -> Chain {
    scale_by_amsgrad(options).descend(learning_rate)
}

/// Divides the running mean of the gradients by the root of the largest mean square.
#[derive(Module, Clone, Debug)]
struct ScaleByAmsgrad {
    #[state(OptState)]
    count: Tensor,
    #[state(OptState)]
    mean: Tree<Tensor>,
    #[state(OptState)]
    square_mean: Tree<Tensor>,
    #[state(OptState)]
    largest: Tree<Tensor>,
    #[r#static]
    options: AmsgradOptions,
}

/// Returns `AMSGrad` without the learning rate (Reddi et al. 2018, "On the convergence of Adam and beyond", algorithm
/// 2).
///
/// u ← max(u, v̂) with the means m̂ and v̂ of [`scale_by_adam`](crate::scale_by_adam), and the update is
/// m̂ / (√(u + ε') + ε) with ε = `epsilon` and ε' = `epsilon_root`.
///
/// # Examples
/// ```
/// use pytree_nn::{AmsgradOptions, scale_by_amsgrad};
/// assert_eq!(scale_by_amsgrad(AmsgradOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If an option is out of its range: a β is negative or not below 1, or an ε is negative or not finite.
#[doc(alias = "optax.scale_by_amsgrad")]
#[track_caller]
pub fn scale_by_amsgrad(options: AmsgradOptions) -> Chain {
    below_one("scale_by_amsgrad", "beta1", options.beta1);
    below_one("scale_by_amsgrad", "beta2", options.beta2);
    not_negative("scale_by_amsgrad", "epsilon", options.epsilon);
    not_negative("scale_by_amsgrad", "epsilon_root", options.epsilon_root);
    Chain::of(ScaleByAmsgrad {
        count: Tensor::from(0_u32),
        mean: Tree::none(),
        square_mean: Tree::none(),
        largest: Tree::none(),
        options,
    })
}

impl GradientTransformation for ScaleByAmsgrad {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = zeros(parameters);
        self.square_mean = self.mean.clone();
        self.largest = self.mean.clone();
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let options = self.options;
        let time = count_update(&mut self.count);
        let of = |wanted: BiasCorrection, beta: f64| {
            (wanted == BiasCorrection::Corrected).then(|| correction(beta, &time))
        };
        let mut mean_correction = of(options.mean_correction, options.beta1);
        let mut square_correction = of(options.square_correction, options.beta2);
        let corrected = |mean: &Tensor, factor: &mut Option<Scalar>| match factor {
            Some(factor) => mean * factor.of_type(mean.dtype()),
            None => mean.clone(),
        };
        let states = [&mut self.mean, &mut self.square_mean, &mut self.largest];
        each(
            states,
            gradients,
            |[mean, square_mean, largest], gradient| {
                *mean = running_mean(mean, &gradient, options.beta1);
                *square_mean = running_square_mean(square_mean, &gradient, options.beta2);
                *largest = largest.maximum(corrected(square_mean, &mut square_correction));
                let deviation = deviation(largest, options.epsilon_root, options.epsilon);
                corrected(mean, &mut mean_correction) / deviation
            },
        )
    }
}
