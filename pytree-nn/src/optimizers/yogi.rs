//! Yogi: Adam with a mean square that changes slowly.

use crate::optimizers::moments::{Corrections, Momentum, full};
use crate::optimizers::prelude::*;

/// The options of [`yogi_with`] and [`scale_by_yogi`], with the defaults of optax.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct YogiOptions {
    /// The weight of the old mean when the running mean of the gradients is updated; by default 0.9.
    #[default(0.9)]
    pub beta1: f64,
    /// The number β₂ in the update of the mean square: see [`scale_by_yogi`]. By default 0.999.
    #[default(0.999)]
    pub beta2: f64,
    /// The number that is added to the root of the mean square; by default 10⁻³.
    #[default(1e-3)]
    pub epsilon: f64,
    /// The number that is added to the mean square before the root is taken; by default 0.
    #[default(0.0)]
    pub epsilon_root: f64,
    /// The initial value of both means; by default 10⁻⁶.
    #[default(1e-6)]
    pub initial: f64,
}

/// Returns Yogi with its default options: see [`scale_by_yogi`].
///
/// # Examples
/// ```
/// use pytree_nn::yogi;
/// assert_eq!(yogi(1e-2).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "optax.yogi")]
#[track_caller]
pub fn yogi(learning_rate: impl Into<Schedule>) -> Chain {
    yogi_with(learning_rate, YogiOptions::default())
}

/// Returns Yogi with options: see [`scale_by_yogi`].
///
/// # Examples
/// ```
/// use pytree_nn::{YogiOptions, yogi_with};
/// let yogi = yogi_with(1e-2, YogiOptions { beta2: 0.99, ..YogiOptions::default() });
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn yogi_with(learning_rate: impl Into<Schedule>, options: YogiOptions) -> Chain {
    scale_by_yogi(options).descend(learning_rate)
}

/// Divides the running mean of the gradients by the root of a mean square that changes slowly.
#[derive(Module, Clone, Debug)]
struct ScaleByYogi {
    #[state(OptState)]
    count: Tensor,
    #[state(OptState)]
    mean: Tree<Tensor>,
    #[state(OptState)]
    square_mean: Tree<Tensor>,
    #[r#static]
    options: YogiOptions,
}

/// Returns Yogi without the learning rate (Zaheer et al. 2018, "Adaptive methods for nonconvex optimization", algorithm
/// 2).
///
/// The update is the same as in [`scale_by_adam`](crate::scale_by_adam), but with v ← v - (1 - β₂) sign(v - g²) g². The
/// initial value of m and v is `initial`.
///
/// # Examples
/// ```
/// use pytree_nn::{YogiOptions, scale_by_yogi};
/// assert_eq!(scale_by_yogi(YogiOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If an option is out of its range: a β is negative or not below 1, or another number is negative or not finite.
#[doc(alias = "optax.scale_by_yogi")]
#[track_caller]
pub fn scale_by_yogi(options: YogiOptions) -> Chain {
    below_one("scale_by_yogi", "beta1", options.beta1);
    below_one("scale_by_yogi", "beta2", options.beta2);
    not_negative("scale_by_yogi", "epsilon", options.epsilon);
    not_negative("scale_by_yogi", "epsilon_root", options.epsilon_root);
    not_negative("scale_by_yogi", "initial", options.initial);
    Chain::of(ScaleByYogi {
        count: Tensor::from(0_u32),
        mean: Tree::none(),
        square_mean: Tree::none(),
        options,
    })
}

impl GradientTransformation for ScaleByYogi {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = full(parameters, self.options.initial);
        self.square_mean = self.mean.clone();
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let YogiOptions {
            beta1,
            beta2,
            epsilon,
            epsilon_root,
            ..
        } = self.options;
        let time = count_update(&mut self.count);
        let mut corrected = Corrections::new(beta1, beta2, Momentum::Classical, &time);
        let states = [&mut self.mean, &mut self.square_mean];
        each(states, gradients, |[mean, square_mean], gradient| {
            *mean = running_mean(mean, &gradient, beta1);
            let square = &gradient * &gradient;
            let sign = (&*square_mean - &square).sign();
            *square_mean = &*square_mean - sign * square * (1.0 - beta2);
            let deviation = deviation(&corrected.square(square_mean), epsilon_root, epsilon);
            corrected.mean(mean, &gradient) / deviation
        })
    }
}
