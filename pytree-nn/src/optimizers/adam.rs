//! Adam and `AdamW`, each also with Nesterov's momentum, and Adam of the rows that have a gradient.

use crate::optimizers::moments::{Corrections, Momentum};
use crate::optimizers::prelude::*;
use crate::optimizers::rate::scale_by_learning_rate;
use crate::optimizers::transformation::chain;
use crate::optimizers::weight_decay::{WeightDecay, add_decayed_weights};

/// The options of [`adam_with`], [`adamw_with`] and [`scale_by_adam`], with the defaults of `optax.adam`. The paper has
/// the same defaults for `beta1`, `beta2` and `epsilon`.
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, adam_with};
/// let adam = adam_with(1e-3, AdamOptions { beta2: 0.95, ..AdamOptions::default() });
/// ```
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct AdamOptions {
    /// The weight of the old mean when the running mean of the gradients is updated; by default 0.9.
    #[default(0.9)]
    pub beta1: f64,
    /// The weight of the old mean when the running mean of the squared gradients is updated; by default 0.999.
    #[default(0.999)]
    pub beta2: f64,
    /// The number that is added to the root of the mean square; by default 10⁻⁸.
    #[default(1e-8)]
    pub epsilon: f64,
    /// The number that is added to the mean square before the root is taken; by default 0. To differentiate through
    /// updates, set a positive number, because the derivative of the root is infinite at 0.
    #[default(0.0)]
    pub epsilon_root: f64,
    /// The form of the momentum; by default [`Momentum::Classical`]. See [`nadam`] for [`Momentum::Nesterov`].
    #[default(Momentum::Classical)]
    pub momentum: Momentum,
}

impl AdamOptions {
    /// Returns the default options, but with Nesterov's momentum.
    fn nesterov() -> Self {
        Self {
            momentum: Momentum::Nesterov,
            ..Self::default()
        }
    }

    /// Panics if a number is out of its range. `function` is the function that makes the transformation.
    #[track_caller]
    pub(super) fn check(&self, function: &str) {
        below_one(function, "beta1", self.beta1);
        below_one(function, "beta2", self.beta2);
        not_negative(function, "epsilon", self.epsilon);
        not_negative(function, "epsilon_root", self.epsilon_root);
    }
}

/// Returns Adam with its default options: see [`scale_by_adam`].
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Optimizer, Rngs, adam};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let optimizer = Optimizer::new(&model, adam(1e-3));
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.adam", "torch.optim.Adam"))]
#[track_caller]
pub fn adam(learning_rate: impl Into<Schedule>) -> Chain {
    adam_with(learning_rate, AdamOptions::default())
}

/// Returns Adam with options: see [`scale_by_adam`].
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, Schedule, adam_with};
/// let options = AdamOptions { epsilon_root: 1e-8, ..AdamOptions::default() };
/// let adam = adam_with(Schedule::cosine(1e-3, 1000), options);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn adam_with(learning_rate: impl Into<Schedule>, options: AdamOptions) -> Chain {
    scale_by_adam(options).descend(learning_rate)
}

/// Returns `AdamW` (Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2). An update is the
/// update of [`adam`], minus the product of the learning rate, the weight decay and the parameter. In `optax.adamw`,
/// the default weight decay is 10⁻⁴.
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{WeightDecay, adamw};
/// let all = adamw(1e-3, 1e-2);
/// let of_matrices = adamw(1e-3, WeightDecay::new(1e-2).only(Filter::matrices()));
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite.
#[doc(alias("optax.adamw", "torch.optim.AdamW"))]
#[track_caller]
pub fn adamw(learning_rate: impl Into<Schedule>, weight_decay: impl Into<WeightDecay>) -> Chain {
    adamw_with(learning_rate, weight_decay, AdamOptions::default())
}

/// Returns `AdamW` with options: see [`adamw`].
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, adamw_with};
/// let adamw = adamw_with(1e-3, 1e-2, AdamOptions { beta2: 0.95, ..AdamOptions::default() });
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn adamw_with(
    learning_rate: impl Into<Schedule>,
    weight_decay: impl Into<WeightDecay>,
    options: AdamOptions,
) -> Chain {
    chain([
        scale_by_adam(options),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Returns Adam with Nesterov's momentum (Dozat 2016, "Incorporating Nesterov momentum into Adam"): see
/// [`scale_by_adam`]. For other options, use [`adam_with`] and [`Momentum::Nesterov`].
///
/// # Examples
/// ```
/// use pytree_nn::nadam;
/// assert_eq!(nadam(1e-3).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.nadam", "torch.optim.NAdam"))]
#[track_caller]
pub fn nadam(learning_rate: impl Into<Schedule>) -> Chain {
    adam_with(learning_rate, AdamOptions::nesterov())
}

/// Returns [`adamw`] with Nesterov's momentum: see [`nadam`].
///
/// # Examples
/// ```
/// use pytree_nn::nadamw;
/// assert_eq!(nadamw(1e-3, 1e-2).len(), 3);
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite.
#[doc(alias = "optax.nadamw")]
#[track_caller]
pub fn nadamw(learning_rate: impl Into<Schedule>, weight_decay: impl Into<WeightDecay>) -> Chain {
    adamw_with(learning_rate, weight_decay, AdamOptions::nesterov())
}

/// Returns Adam that updates only the rows with a gradient: see [`scale_by_lazy_adam`]. It is the optimizer for tables of which each step
/// reads few rows.
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{adam, groups, lazy_adam};
/// let tables = Filter::path_contains("embedding");
/// let optimizer = groups([(tables, lazy_adam(1e-3)), (Filter::everything(), adam(1e-3))]);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "torch.optim.SparseAdam")]
#[track_caller]
pub fn lazy_adam(learning_rate: impl Into<Schedule>) -> Chain {
    scale_by_lazy_adam(AdamOptions::default()).descend(learning_rate)
}

/// Returns [`scale_by_adam`] that updates only the rows with a gradient, as `torch.optim.SparseAdam` does.
///
/// A row is a position on the first axis of a parameter. If all elements of its gradient are 0, the row and its running means stay as they
/// are. Adam would move the row by its old mean, and let the means decay. The corrections of the bias count all updates. In a compiled step,
/// an update takes the time of the rows that have a gradient.
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, chain, scale_by_lazy_adam, scale_by_learning_rate};
/// let adam = scale_by_lazy_adam(AdamOptions { beta1: 0.0, ..AdamOptions::default() });
/// let chain = chain([adam, scale_by_learning_rate(1e-3)]);
/// ```
///
/// # Panics
/// If an option is out of its range.
#[track_caller]
pub fn scale_by_lazy_adam(options: AdamOptions) -> Chain {
    options.check("scale_by_lazy_adam");
    Chain::of(ScaleByAdam::new(options, true))
}

/// Divides the running mean of the gradients by the root of their running mean square: see [`scale_by_adam`].
#[derive(Module, Clone, Debug)]
pub struct ScaleByAdam {
    /// The number of updates: `u32[]`.
    #[state(OptState)]
    count: Tensor,
    /// The running mean of the gradients, m.
    #[state(OptState)]
    mean: Tree<Tensor>,
    /// The running mean of the squared gradients, v.
    #[state(OptState)]
    square_mean: Tree<Tensor>,
    beta1: Hyperparameter,
    beta2: Hyperparameter,
    epsilon: Hyperparameter,
    epsilon_root: Hyperparameter,
    #[r#static]
    momentum: Momentum,
    /// Whether rows without a gradient stay as they are.
    #[r#static]
    is_lazy: bool,
}

impl ScaleByAdam {
    fn new(options: AdamOptions, is_lazy: bool) -> Self {
        Self {
            count: Tensor::from(0_u32),
            mean: Tree::none(),
            square_mean: Tree::none(),
            beta1: options.beta1.into(),
            beta2: options.beta2.into(),
            epsilon: options.epsilon.into(),
            epsilon_root: options.epsilon_root.into(),
            momentum: options.momentum,
            is_lazy,
        }
    }
}

/// Returns whether each row of a gradient has an element that is not 0: a bool that broadcasts to the gradient.
fn has_gradient(gradient: &Tensor) -> Tensor {
    let axes = 1..isize::try_from(gradient.rank()).unwrap_or(isize::MAX);
    gradient.any_keep(axes.collect::<Vec<isize>>())
}

/// Returns Adam without the learning rate (Kingma and Ba 2015, "Adam: a method for stochastic optimization", algorithm
/// 1).
///
/// m ← β₁ m + (1 - β₁) g, v ← β₂ v + (1 - β₂) g², and the update is m̂ / (√(v̂ + ε') + ε) with m̂ = m / (1 - β₁ᵗ),
/// v̂ = v / (1 - β₂ᵗ), ε = `epsilon` and ε' = `epsilon_root`. With [`Momentum::Nesterov`],
/// m̂ = β₁ m / (1 - β₁ᵗ⁺¹) + (1 - β₁) g / (1 - β₁ᵗ).
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, chain, scale_by_adam, scale_by_learning_rate};
/// let adam = chain([scale_by_adam(AdamOptions::default()), scale_by_learning_rate(1e-3)]);
/// assert_eq!(adam.len(), 2);
/// ```
///
/// # Panics
/// If an option is out of its range: a β is negative or not below 1, or an ε is negative or not finite.
#[doc(alias = "optax.scale_by_adam")]
#[track_caller]
pub fn scale_by_adam(options: AdamOptions) -> Chain {
    options.check("scale_by_adam");
    Chain::of(ScaleByAdam::new(options, false))
}

impl GradientTransformation for ScaleByAdam {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = zeros(parameters);
        self.square_mean = self.mean.clone();
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let time = count_update(&mut self.count);
        let mut corrected = Corrections::new(&self.beta1, &self.beta2, self.momentum, &time);
        let states = [&mut self.mean, &mut self.square_mean];
        each(states, gradients, |[mean, square_mean], gradient| {
            let before = self.is_lazy.then(|| (mean.clone(), square_mean.clone()));
            *mean = running_mean(mean, &gradient, &self.beta1);
            *square_mean = running_square_mean(square_mean, &gradient, &self.beta2);
            let square = corrected.square(square_mean);
            let deviation = deviation(&square, &self.epsilon_root, &self.epsilon);
            let update = corrected.mean(mean, &gradient) / deviation;
            let Some((old_mean, old_square_mean)) = before else {
                return update;
            };
            let is_updated = has_gradient(&gradient);
            *mean = is_updated.select(&*mean, old_mean);
            *square_mean = is_updated.select(&*square_mean, old_square_mean);
            is_updated.select(&update, Tensor::zeros_like(&update))
        })
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        vec![
            NamedHyperparameter::below_one("beta1", &mut self.beta1),
            NamedHyperparameter::below_one("beta2", &mut self.beta2),
            NamedHyperparameter::not_negative("epsilon", &mut self.epsilon),
            NamedHyperparameter::not_negative("epsilon_root", &mut self.epsilon_root),
        ]
    }
}
