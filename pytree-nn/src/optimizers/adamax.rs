//! Adamax: Adam with the maximum norm.

use crate::optimizers::moments::correction;
use crate::optimizers::prelude::*;
use crate::optimizers::rate::scale_by_learning_rate;
use crate::optimizers::transformation::chain;
use crate::optimizers::weight_decay::{WeightDecay, add_decayed_weights};

/// The options of [`adamax_with`] and [`scale_by_adamax`], with the defaults of `optax.adamax`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct AdamaxOptions {
    /// The weight of the old mean when the running mean of the gradients is updated; by default 0.9.
    #[default(0.9)]
    pub beta1: f64,
    /// The factor of the old maximum when the running maximum of the absolute gradients is updated; by default 0.999.
    #[default(0.999)]
    pub beta2: f64,
    /// The number that is added to the absolute gradients; by default 10⁻⁸.
    #[default(1e-8)]
    pub epsilon: f64,
}

/// Returns Adamax with its default options: see [`scale_by_adamax`].
///
/// # Examples
/// ```
/// use pytree_nn::adamax;
/// assert_eq!(adamax(1e-3).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.adamax", "torch.optim.Adamax"))]
#[track_caller]
pub fn adamax(learning_rate: impl Into<Schedule>) -> Chain {
    adamax_with(learning_rate, AdamaxOptions::default())
}

/// Returns Adamax with options: see [`scale_by_adamax`].
///
/// # Examples
/// ```
/// use pytree_nn::{AdamaxOptions, adamax_with};
/// let adamax = adamax_with(1e-3, AdamaxOptions { beta2: 0.99, ..AdamaxOptions::default() });
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn adamax_with(learning_rate: impl Into<Schedule>, options: AdamaxOptions) -> Chain {
    scale_by_adamax(options).descend(learning_rate)
}

/// Returns [`adamax`] with a decoupled weight decay, like [`adamw`](crate::adamw). In `optax.adamaxw`, the default
/// weight decay is 10⁻⁴.
///
/// # Examples
/// ```
/// use pytree_nn::adamaxw;
/// assert_eq!(adamaxw(1e-3, 1e-4).len(), 3);
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite.
#[doc(alias = "optax.adamaxw")]
#[track_caller]
pub fn adamaxw(learning_rate: impl Into<Schedule>, weight_decay: impl Into<WeightDecay>) -> Chain {
    chain([
        scale_by_adamax(AdamaxOptions::default()),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Divides the running mean of the gradients by their running maximum.
#[derive(Module, Clone, Debug)]
struct ScaleByAdamax {
    #[state(OptState)]
    count: Tensor,
    #[state(OptState)]
    mean: Tree<Tensor>,
    #[state(OptState)]
    maximum: Tree<Tensor>,
    #[r#static]
    options: AdamaxOptions,
}

/// Returns Adamax without the learning rate (Kingma and Ba 2015, "Adam: a method for stochastic optimization",
/// algorithm 2).
///
/// m ← β₁ m + (1 - β₁) g, u ← max(β₂ u, |g| + ε), and the update is m / ((1 - β₁ᵗ) u).
///
/// # Examples
/// ```
/// use pytree_nn::{AdamaxOptions, scale_by_adamax};
/// assert_eq!(scale_by_adamax(AdamaxOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If an option is out of its range: `beta1` is not below 1, `beta2` is above 1, or a number is negative or NaN.
#[doc(alias = "optax.scale_by_adamax")]
#[track_caller]
pub fn scale_by_adamax(options: AdamaxOptions) -> Chain {
    below_one("scale_by_adamax", "beta1", options.beta1);
    fraction("scale_by_adamax", "beta2", options.beta2);
    not_negative("scale_by_adamax", "epsilon", options.epsilon);
    Chain::of(ScaleByAdamax {
        count: Tensor::from(0_u32),
        mean: Tree::none(),
        maximum: Tree::none(),
        options,
    })
}

impl GradientTransformation for ScaleByAdamax {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = zeros(parameters);
        self.maximum = self.mean.clone();
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let options = self.options;
        let mut mean_correction = correction(options.beta1, &count_update(&mut self.count));
        let states = [&mut self.mean, &mut self.maximum];
        each(states, gradients, |[mean, maximum], gradient| {
            *mean = running_mean(mean, &gradient, options.beta1);
            *maximum = (gradient.abs() + options.epsilon).maximum(&*maximum * options.beta2);
            &*mean * mean_correction.of_type(gradient.dtype()) / &*maximum
        })
    }
}
