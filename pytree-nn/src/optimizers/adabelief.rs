//! `AdaBelief`: Adam with the variance of the gradients around their mean.

use crate::optimizers::adam::AdamOptions;
use crate::optimizers::moments::{Corrections, plus};
use crate::optimizers::prelude::*;

/// Returns `AdaBelief` with the defaults of `optax.adabelief`: see [`scale_by_belief`]. The defaults are the same as
/// for [`adam`](crate::adam), but `epsilon` and `epsilon_root` are 10⁻¹⁶.
///
/// # Examples
/// ```
/// use pytree_nn::adabelief;
/// assert_eq!(adabelief(1e-3).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "optax.adabelief")]
#[track_caller]
pub fn adabelief(learning_rate: impl Into<Schedule>) -> Chain {
    let options = AdamOptions {
        epsilon: 1e-16,
        epsilon_root: 1e-16,
        ..AdamOptions::default()
    };
    adabelief_with(learning_rate, options)
}

/// Returns `AdaBelief` with options: see [`scale_by_belief`]. In `optax.adabelief`, the default of `epsilon` and of
/// `epsilon_root` is 10⁻¹⁶, which differs from [`AdamOptions::default`].
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, Momentum, adabelief_with};
/// let options = AdamOptions {
///     epsilon: 1e-16,
///     epsilon_root: 1e-16,
///     momentum: Momentum::Nesterov,
///     ..AdamOptions::default()
/// };
/// let adabelief = adabelief_with(1e-3, options);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn adabelief_with(learning_rate: impl Into<Schedule>, options: AdamOptions) -> Chain {
    scale_by_belief(options).descend(learning_rate)
}

/// Divides the running mean of the gradients by the root of their running variance.
#[derive(Module, Clone, Debug)]
struct ScaleByBelief {
    #[state(OptState)]
    count: Tensor,
    #[state(OptState)]
    mean: Tree<Tensor>,
    #[state(OptState)]
    variance: Tree<Tensor>,
    #[r#static]
    options: AdamOptions,
}

/// Returns `AdaBelief` without the learning rate (Zhuang et al. 2020, "`AdaBelief` optimizer: adapting stepsizes by the
/// belief in observed gradients", algorithm 2).
///
/// m ← β₁ m + (1 - β₁) g, s ← β₂ s + (1 - β₂) (g - m)² + ε', and the update is m̂ / (√ŝ + ε) with ŝ = s / (1 - β₂ᵗ),
/// ε = `epsilon` and ε' = `epsilon_root`. See [`scale_by_adam`](crate::scale_by_adam) for m̂.
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, scale_by_belief};
/// assert_eq!(scale_by_belief(AdamOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If an option is out of its range: a β is negative or not below 1, or an ε is negative or not finite.
#[doc(alias = "optax.scale_by_belief")]
#[track_caller]
pub fn scale_by_belief(options: AdamOptions) -> Chain {
    options.check("scale_by_belief");
    Chain::of(ScaleByBelief {
        count: Tensor::from(0_u32),
        mean: Tree::none(),
        variance: Tree::none(),
        options,
    })
}

impl GradientTransformation for ScaleByBelief {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = zeros(parameters);
        self.variance = self.mean.clone();
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let AdamOptions {
            beta1,
            beta2,
            epsilon,
            epsilon_root,
            momentum,
        } = self.options;
        let time = count_update(&mut self.count);
        let mut corrected = Corrections::new(beta1, beta2, momentum, &time);
        let states = [&mut self.mean, &mut self.variance];
        each(states, gradients, |[mean, variance], gradient| {
            *mean = running_mean(mean, &gradient, beta1);
            let error = &gradient - &*mean;
            *variance = plus(&running_square_mean(variance, &error, beta2), epsilon_root);
            let deviation = deviation(&corrected.square(variance), 0.0, epsilon);
            corrected.mean(mean, &gradient) / deviation
        })
    }
}
