//! `AdaGrad`.

use crate::optimizers::moments::full;
use crate::optimizers::prelude::*;

/// The options of [`adagrad_with`] and [`scale_by_sum_of_squares`], with the defaults of `optax.adagrad`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct AdagradOptions {
    /// The initial value of the sums of squares; by default 0.1.
    #[default(0.1)]
    pub initial_sum: f64,
    /// The number that is added to the sum before the root is taken; by default 10⁻⁷.
    #[default(1e-7)]
    pub epsilon: f64,
}

/// Returns `AdaGrad` with its default options: see [`scale_by_sum_of_squares`].
///
/// # Examples
/// ```
/// use pytree_nn::adagrad;
/// assert_eq!(adagrad(0.1).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.adagrad", "torch.optim.Adagrad"))]
#[track_caller]
pub fn adagrad(learning_rate: impl Into<Schedule>) -> Chain {
    adagrad_with(learning_rate, AdagradOptions::default())
}

/// Returns `AdaGrad` with options: see [`scale_by_sum_of_squares`].
///
/// # Examples
/// ```
/// use pytree_nn::{AdagradOptions, adagrad_with};
/// let adagrad = adagrad_with(0.1, AdagradOptions { initial_sum: 0.0, ..AdagradOptions::default() });
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn adagrad_with(learning_rate: impl Into<Schedule>, options: AdagradOptions) -> Chain {
    scale_by_sum_of_squares(options).descend(learning_rate)
}

/// Divides gradients by the root of the sum of all their squares.
#[derive(Module, Clone, Debug)]
struct ScaleBySumOfSquares {
    #[state(OptState)]
    sums: Tree<Tensor>,
    #[r#static]
    options: AdagradOptions,
}

/// Returns `AdaGrad` without the learning rate, like `optax.scale_by_rss` (Duchi et al. 2011, "Adaptive subgradient
/// methods for online learning and stochastic optimization", figure 1).
///
/// s ← s + g², and the update is g / √(s + ε), or 0 where s is 0.
///
/// # Examples
/// ```
/// use pytree_nn::{AdagradOptions, scale_by_sum_of_squares};
/// assert_eq!(scale_by_sum_of_squares(AdagradOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If the initial sum or ε is negative or not finite.
#[doc(alias = "optax.scale_by_rss")]
#[track_caller]
pub fn scale_by_sum_of_squares(options: AdagradOptions) -> Chain {
    not_negative(
        "scale_by_sum_of_squares",
        "initial_sum",
        options.initial_sum,
    );
    not_negative("scale_by_sum_of_squares", "epsilon", options.epsilon);
    Chain::of(ScaleBySumOfSquares {
        sums: Tree::none(),
        options,
    })
}

impl GradientTransformation for ScaleBySumOfSquares {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.sums = full(parameters, self.options.initial_sum);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.sums.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        each([&mut self.sums], gradients, |[sum], gradient| {
            *sum = &*sum + gradient.square();
            let inverse = (&*sum + self.options.epsilon).rsqrt();
            let is_positive = sum.greater(0.0);
            is_positive.select(&inverse, Tensor::zeros_like(&inverse)) * gradient
        })
    }
}
