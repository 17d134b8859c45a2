//! `NovoGrad`, which normalises the gradient of each parameter by its running norm.

use crate::optimizers::prelude::*;
use crate::optimizers::transformation::check_number;

/// The options of [`novograd_with`] and [`scale_by_novograd`], with the defaults of `optax.novograd`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct NovogradOptions {
    /// The factor of the old sum when the sum of the normalised gradients is updated; by default 0.9.
    #[default(0.9)]
    pub beta1: f64,
    /// The weight of the old mean when the running mean of the squared norms is updated; by default 0.25.
    #[default(0.25)]
    pub beta2: f64,
    /// The number that is added to the root of the mean square; by default 10⁻⁶.
    #[default(1e-6)]
    pub epsilon: f64,
    /// The number that is added to the mean square before the root is taken; by default 0.
    #[default(0.0)]
    pub epsilon_root: f64,
    /// The strength of the weight decay, which is added to each normalised gradient before the summation; by default 0.
    #[default(0.0)]
    pub weight_decay: f64,
}

/// Returns `NovoGrad` with its default options: see [`scale_by_novograd`].
///
/// # Examples
/// ```
/// use pytree_nn::novograd;
/// assert_eq!(novograd(1e-2).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "optax.novograd")]
#[track_caller]
pub fn novograd(learning_rate: impl Into<Schedule>) -> Chain {
    novograd_with(learning_rate, NovogradOptions::default())
}

/// Returns `NovoGrad` with options: see [`scale_by_novograd`].
///
/// # Examples
/// ```
/// use pytree_nn::{NovogradOptions, novograd_with};
/// let options = NovogradOptions { weight_decay: 1e-3, ..NovogradOptions::default() };
/// let novograd = novograd_with(1e-2, options);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn novograd_with(learning_rate: impl Into<Schedule>, options: NovogradOptions) -> Chain {
    scale_by_novograd(options).descend(learning_rate)
}

/// Sums gradients that are divided by their running norm.
#[derive(Module, Clone, Debug)]
struct ScaleByNovograd {
    #[state(OptState)]
    count: Tensor,
    #[state(OptState)]
    sums: Tree<Tensor>,
    /// The running mean of the squared norm of each parameter's gradient, a scalar.
    #[state(OptState)]
    square_norm: Tree<Tensor>,
    #[r#static]
    options: NovogradOptions,
}

/// Returns `NovoGrad` without the learning rate (Ginsburg et al. 2019, "Stochastic gradient methods with layer-wise
/// adaptive moments for training of deep networks", algorithm 1).
///
/// For each parameter p with the gradient g, v = ‖g‖² in the first update, and v ← β₂ v + (1 - β₂) ‖g‖² in later
/// updates. The update is m ← β₁ m + g / (√(v + ε') + ε) + `weight_decay` · p, with ε = `epsilon` and
/// ε' = `epsilon_root`.
///
/// # Examples
/// ```
/// use pytree_nn::{NovogradOptions, scale_by_novograd};
/// assert_eq!(scale_by_novograd(NovogradOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If an option is out of its range: a β is not from 0 to 1, or another number is negative or not finite.
#[doc(alias = "optax.scale_by_novograd")]
#[track_caller]
pub fn scale_by_novograd(options: NovogradOptions) -> Chain {
    fraction("scale_by_novograd", "beta1", options.beta1);
    fraction("scale_by_novograd", "beta2", options.beta2);
    not_negative("scale_by_novograd", "epsilon", options.epsilon);
    not_negative("scale_by_novograd", "epsilon_root", options.epsilon_root);
    not_negative("scale_by_novograd", "weight_decay", options.weight_decay);
    Chain::of(ScaleByNovograd {
        count: Tensor::from(0_u32),
        sums: Tree::none(),
        square_norm: Tree::none(),
        options,
    })
}

impl GradientTransformation for ScaleByNovograd {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.sums = zeros(parameters);
        self.square_norm = parameters.map(|parameter| Tensor::zeros(parameter.dtype(), []));
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.sums.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        check_number("parameters", parameters.len(), gradients.len());
        let is_first = self.count.equal(0);
        self.count = &self.count + 1;
        let options = self.options;
        let mut parameters = parameters.iter();
        let states = [&mut self.sums, &mut self.square_norm];
        each(states, gradients, |[sum, square_norm], gradient| {
            let square = gradient.square().sum();
            let mean = &*square_norm * options.beta2 + &square * (1.0 - options.beta2);
            *square_norm = is_first.select(&square, &mean);
            let deviation = deviation(square_norm, options.epsilon_root, options.epsilon);
            let mut normalized = gradient / deviation;
            let parameter = parameters.next();
            if let Some(parameter) = parameter.filter(|_| options.weight_decay != 0.0) {
                normalized += parameter * options.weight_decay;
            }
            *sum = &*sum * options.beta1 + normalized;
            sum.clone()
        })
    }
}
