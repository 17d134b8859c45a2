//! Lion, and gradient descent with the signs of gradients.

use crate::optimizers::amsgrad::BiasCorrection;
use crate::optimizers::ema::ema_with;
use crate::optimizers::prelude::*;
use crate::optimizers::rate::scale_by_learning_rate;
use crate::optimizers::transformation::chain;
use crate::optimizers::weight_decay::{WeightDecay, add_decayed_weights};

/// The options of [`lion_with`] and [`scale_by_lion`], with the defaults of `optax.lion`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct LionOptions {
    /// The weight of the running mean in the update; by default 0.9.
    #[default(0.9)]
    pub beta1: f64,
    /// The weight of the old mean when the running mean of the gradients is updated; by default 0.99.
    #[default(0.99)]
    pub beta2: f64,
}

/// Returns Lion with its default options: see [`scale_by_lion`]. In `optax.lion`, the default weight decay is 10⁻³.
///
/// # Examples
/// ```
/// use pytree_nn::lion;
/// assert_eq!(lion(1e-4, 1e-3).len(), 3);
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite.
#[doc(alias = "optax.lion")]
#[track_caller]
pub fn lion(learning_rate: impl Into<Schedule>, weight_decay: impl Into<WeightDecay>) -> Chain {
    lion_with(learning_rate, weight_decay, LionOptions::default())
}

/// Returns Lion with options: see [`scale_by_lion`].
///
/// # Examples
/// ```
/// use pytree_nn::{LionOptions, lion_with};
/// let lion = lion_with(1e-4, 1e-3, LionOptions { beta2: 0.98, ..LionOptions::default() });
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn lion_with(
    learning_rate: impl Into<Schedule>,
    weight_decay: impl Into<WeightDecay>,
    options: LionOptions,
) -> Chain {
    chain([
        scale_by_lion(options),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Returns gradient descent with the signs of the gradients (Bernstein et al. 2018, "signSGD: compressed optimisation
/// for non-convex problems", algorithm 1): p ← p - `learning_rate` · sign(g).
///
/// # Examples
/// ```
/// use pytree_nn::sign_sgd;
/// assert_eq!(sign_sgd(1e-3).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "optax.sign_sgd")]
#[track_caller]
pub fn sign_sgd(learning_rate: impl Into<Schedule>) -> Chain {
    chain([scale_by_sign(), scale_by_learning_rate(learning_rate)])
}

/// Returns gradient descent with the signs of a running mean of the gradients: Signum (Bernstein et al. 2018, algorithm
/// 2). In `optax.signum`, the default decay is 0.9.
///
/// # Examples
/// ```
/// use pytree_nn::signum;
/// assert_eq!(signum(1e-3, 0.9).len(), 3);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if `decay` is not from 0 to 1.
#[doc(alias = "optax.signum")]
#[track_caller]
pub fn signum(learning_rate: impl Into<Schedule>, decay: f64) -> Chain {
    chain([
        ema_with(decay, BiasCorrection::Uncorrected),
        scale_by_sign(),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Replaces gradients by their signs.
#[derive(Module, Clone, Debug)]
struct ScaleBySign;

/// Returns the transformation that replaces each number of a gradient by its sign: -1, 0 or 1.
///
/// # Examples
/// ```
/// use pytree_nn::{GradientTransformation, scale_by_sign};
/// use pytree_transform::Tensor;
/// let updates = scale_by_sign().update(vec![Tensor::from([3.0, 0.0, -0.5])], &[]);
/// assert_eq!(updates[0], Tensor::from([1.0, 0.0, -1.0]));
/// ```
#[doc(alias = "optax.scale_by_sign")]
pub fn scale_by_sign() -> Chain {
    Chain::of(ScaleBySign)
}

impl GradientTransformation for ScaleBySign {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        gradients.iter().map(Tensor::sign).collect()
    }
}

/// Returns the signs of an interpolation between the running mean and the gradient.
#[derive(Module, Clone, Debug)]
struct ScaleByLion {
    #[state(OptState)]
    count: Tensor,
    #[state(OptState)]
    mean: Tree<Tensor>,
    beta1: Hyperparameter,
    beta2: Hyperparameter,
}

/// Returns Lion without the weight decay and the learning rate (Chen et al. 2023, "Symbolic discovery of optimization
/// algorithms", program 1).
///
/// The update is sign(β₁ m + (1 - β₁) g), and afterwards m ← β₂ m + (1 - β₂) g.
///
/// # Examples
/// ```
/// use pytree_nn::{LionOptions, scale_by_lion};
/// assert_eq!(scale_by_lion(LionOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If a β is not from 0 to 1.
#[doc(alias = "optax.scale_by_lion")]
#[track_caller]
pub fn scale_by_lion(options: LionOptions) -> Chain {
    fraction("scale_by_lion", "beta1", options.beta1);
    fraction("scale_by_lion", "beta2", options.beta2);
    Chain::of(ScaleByLion {
        count: Tensor::from(0_u32),
        mean: Tree::none(),
        beta1: options.beta1.into(),
        beta2: options.beta2.into(),
    })
}

impl GradientTransformation for ScaleByLion {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = zeros(parameters);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        self.count = &self.count + 1;
        each([&mut self.mean], gradients, |[mean], gradient| {
            let update = running_mean(mean, &gradient, &self.beta1).sign();
            *mean = running_mean(mean, &gradient, &self.beta2);
            update
        })
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        vec![
            NamedHyperparameter::fraction("beta1", &mut self.beta1),
            NamedHyperparameter::fraction("beta2", &mut self.beta2),
        ]
    }
}
