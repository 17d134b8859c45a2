//! The learning rate, and plain gradient descent.

use pytree_core::{Module, Tree};
use pytree_transform::Tensor;

use crate::optimizers::error::OptimizerError;
use crate::optimizers::ranges::{finite, finite_constant, strength};
use crate::optimizers::scheduled::Scheduled;
use crate::optimizers::transformation::{Chain, GradientTransformation, Scalar, chain};
use crate::schedules::Schedule;

/// Returns stochastic gradient descent: p ← p - `learning_rate` · g. See [`sgd_momentum`](crate::sgd_momentum) for
/// momentum.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Optimizer, Rngs, Schedule, sgd};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let optimizer = Optimizer::new(&model, sgd(0.1));
/// let optimizer = Optimizer::new(&model, sgd(Schedule::cosine(0.1, 1000)));
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.sgd", "torch.optim.SGD"))]
#[track_caller]
pub fn sgd(learning_rate: impl Into<Schedule>) -> Chain {
    scale_by_learning_rate(learning_rate)
}

impl Chain {
    /// Returns the chain, followed by [`scale_by_learning_rate`].
    #[track_caller]
    pub(super) fn descend(self, learning_rate: impl Into<Schedule>) -> Self {
        chain([self, scale_by_learning_rate(learning_rate)])
    }
}

/// Multiplies gradients by the negative learning rate: see [`scale_by_learning_rate`].
#[derive(Module, Clone, Debug)]
pub struct ScaleByLearningRate {
    learning_rate: Scheduled,
}

/// Returns the transformation that multiplies gradients by the negative learning rate. Most chains end with this
/// transformation.
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, Schedule, chain, scale_by_adam, scale_by_learning_rate};
/// let adam = scale_by_adam(AdamOptions::default());
/// let both = chain([adam, scale_by_learning_rate(Schedule::linear(1e-3, 0.0, 1000))]);
/// assert_eq!(both.len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "optax.scale_by_learning_rate")]
#[track_caller]
pub fn scale_by_learning_rate(learning_rate: impl Into<Schedule>) -> Chain {
    let learning_rate = learning_rate.into();
    strength("scale_by_learning_rate", "learning_rate", &learning_rate);
    Chain::of(ScaleByLearningRate {
        learning_rate: Scheduled::new(learning_rate),
    })
}

impl GradientTransformation for ScaleByLearningRate {
    fn check(&self, _: &Tree<Tensor>) -> Result<(), OptimizerError> {
        self.learning_rate.check()
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.learning_rate.init(parameters);
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let mut factor = Scalar::new(-self.learning_rate.next());
        gradients
            .iter()
            .map(|gradient| gradient * factor.of_type(gradient.dtype()))
            .collect()
    }

    fn learning_rate(&self) -> Option<Tensor> {
        Some(self.learning_rate.value())
    }

    fn set_learning_rate(&mut self, rate: &Schedule) -> bool {
        self.learning_rate.replace(rate);
        true
    }
}

/// Multiplies gradients by a number that depends on the count of updates.
#[derive(Module, Clone, Debug)]
struct ScaleBySchedule {
    factor: Scheduled,
}

/// Returns the transformation that multiplies gradients by `factor`, like `optax.scale_by_schedule`. Unlike
/// [`scale_by_learning_rate`], this transformation does not change the sign.
///
/// # Examples
/// ```
/// use pytree_nn::{Schedule, adam, chain, scale_by_schedule};
/// let warm = chain([adam(1e-3), scale_by_schedule(Schedule::linear(0.0, 1.0, 100))]);
/// ```
///
/// # Panics
/// If a constant factor is not finite.
#[doc(alias = "optax.scale_by_schedule")]
#[track_caller]
pub fn scale_by_schedule(factor: impl Into<Schedule>) -> Chain {
    let factor = factor.into();
    finite_constant("scale_by_schedule", "factor", &factor);
    Chain::of(ScaleBySchedule {
        factor: Scheduled::new(factor),
    })
}

impl GradientTransformation for ScaleBySchedule {
    fn check(&self, _: &Tree<Tensor>) -> Result<(), OptimizerError> {
        self.factor.check()
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.factor.init(parameters);
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let mut factor = Scalar::new(self.factor.next());
        gradients
            .iter()
            .map(|gradient| gradient * factor.of_type(gradient.dtype()))
            .collect()
    }

    fn learning_rate(&self) -> Option<Tensor> {
        Some(self.factor.value())
    }

    fn set_learning_rate(&mut self, rate: &Schedule) -> bool {
        self.factor.replace(rate);
        true
    }
}

/// Multiplies gradients by a constant.
#[derive(Module, Clone, Debug)]
struct Scale {
    #[r#static]
    factor: f64,
}

/// Returns the transformation that multiplies gradients by a constant, like `optax.scale`.
///
/// # Examples
/// ```
/// use pytree_nn::{GradientTransformation, scale};
/// use pytree_transform::Tensor;
/// assert_eq!(scale(-2.0).update(vec![Tensor::from(3.0)], &[]), [Tensor::from(-6.0)]);
/// ```
///
/// # Panics
/// If the factor is not finite.
#[doc(alias = "optax.scale")]
#[track_caller]
pub fn scale(factor: f64) -> Chain {
    finite("scale", "factor", factor);
    Chain::of(Scale { factor })
}

impl GradientTransformation for Scale {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let factor = self.factor;
        gradients.iter().map(|gradient| gradient * factor).collect()
    }
}
