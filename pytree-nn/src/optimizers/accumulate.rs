//! Gradient accumulation: one update for the gradients of several steps.

use crate::optimizers::error::OptimizerError;
use crate::optimizers::prelude::*;
use crate::optimizers::transformation::{check_number, keep_states_where};

/// The value of the accumulated gradients that [`accumulate_with`] passes to the inner chain.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Accumulation {
    /// The mean of the gradients, like `use_grad_mean=True` in optax.
    #[default]
    Mean,
    /// The sum of the gradients, like `use_grad_mean=False` in optax.
    Sum,
}

/// Accumulates gradients, and applies the inner chain once in `steps` steps.
#[derive(Module, Clone, Debug)]
struct Accumulate {
    /// The number of gradients accumulated since the last update of the inner chain: `u32[]`.
    #[state(OptState)]
    mini_step: Tensor,
    /// The number of updates of the inner chain: `u32[]`.
    #[state(OptState)]
    gradient_step: Tensor,
    inner: Chain,
    /// The accumulated gradients, in f32 or a wider dtype.
    #[state(OptState)]
    accumulated: Tree<Tensor>,
    #[r#static]
    steps: u32,
    #[r#static]
    accumulation: Accumulation,
}

/// Returns a chain that accumulates the gradients of `steps` steps, and then applies `inner` once to their mean, like
/// `optax.MultiSteps`. In all other steps, the updates are 0. With this chain, you can divide a large batch into
/// several steps.
///
/// Gradients are accumulated in f32 or a wider dtype. A schedule in `inner` counts the updates of `inner`, not the
/// steps.
///
/// # Examples
/// ```
/// use pytree_nn::{accumulate, adam};
/// let every_fourth = accumulate(4, adam(1e-3));
/// ```
///
/// # Panics
/// If `steps` is 0 or above 2³² - 1.
#[doc(alias = "optax.MultiSteps")]
#[track_caller]
pub fn accumulate(steps: usize, inner: Chain) -> Chain {
    accumulate_with(steps, Accumulation::Mean, inner)
}

/// Returns a chain like [`accumulate`]. The chain passes the mean or the sum of the gradients to `inner`.
///
/// # Examples
/// ```
/// use pytree_nn::{Accumulation, accumulate_with, sgd};
/// let summed = accumulate_with(4, Accumulation::Sum, sgd(0.1));
/// ```
///
/// # Panics
/// If `steps` is 0 or above 2³² - 1.
#[track_caller]
pub fn accumulate_with(steps: usize, accumulation: Accumulation, inner: Chain) -> Chain {
    let Some(steps) = u32::try_from(steps).ok().filter(|steps| *steps > 0) else {
        panic!(
            "cannot accumulate gradients: expected from 1 to {} steps, found {steps}",
            u32::MAX
        )
    };
    Chain::of(Accumulate {
        mini_step: Tensor::from(0_u32),
        gradient_step: Tensor::from(0_u32),
        inner,
        accumulated: Tree::none(),
        steps,
        accumulation,
    })
}

impl GradientTransformation for Accumulate {
    fn check(&self, parameters: &Tree<Tensor>) -> Result<(), OptimizerError> {
        self.inner.check(parameters)
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.inner.init(parameters);
        self.accumulated = zeros(parameters);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        self.inner.other_parameters(parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        let states = self.accumulated.leaves().len();
        check_number("states", states, gradients.len());
        let mut number = Scalar::new((&self.mini_step + 1).convert(DType::F64));
        let emits = self.mini_step.equal(Tensor::from(self.steps - 1));
        let accumulated = self.accumulated.leaves().iter().zip(&gradients);
        let accumulated: Vec<Tensor> = accumulated
            .map(|(sum, gradient)| match self.accumulation {
                Accumulation::Mean => sum + (gradient - sum) / number.of_type(sum.dtype()),
                Accumulation::Sum => sum + gradient,
            })
            .collect();
        let before = self.inner.clone();
        let updates = self.inner.update(accumulated.clone(), parameters);
        keep_states_where(&emits, &mut self.inner, &before);
        for (state, sum) in self.accumulated.leaves_mut().iter_mut().zip(accumulated) {
            *state = emits.select(Tensor::zeros_like(&sum), &sum);
        }
        let zero = Tensor::from(0_u32);
        self.mini_step = emits.select(&zero, &self.mini_step + 1);
        self.gradient_step = &self.gradient_step + emits.convert(DType::U32);
        let kept = |update: &Tensor| emits.select(update, Tensor::zeros_like(update));
        updates.iter().map(kept).collect()
    }

    fn learning_rate(&self) -> Option<Tensor> {
        self.inner.learning_rate()
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        self.inner.hyperparameters()
    }

    fn set_learning_rate(&mut self, rate: &Schedule) -> bool {
        self.inner.set_learning_rate(rate)
    }
}
