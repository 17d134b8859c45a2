//! Exponential decay.

use pytree_core::kind::OptState;
use pytree_core::{Module, Static};
use pytree_transform::Tensor;

use crate::schedules::schedule::{Schedule, ScheduleFunction, updates_tensor};

/// How an exponential schedule changes between multiples of `steps`.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum DecaySteps {
    /// The value changes with each update, like `staircase=False` in optax.
    #[default]
    Continuous,
    /// The value changes only at multiples of `steps`, like `staircase=True` in optax.
    Staircase,
}

/// The options of [`Schedule::exponential_with`], with the defaults of `optax.exponential_decay`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExponentialOptions {
    /// How the value changes between multiples of `steps`; by default [`DecaySteps::Continuous`].
    pub decay_steps: DecaySteps,
    /// The bound of the value: a lower bound if the decay rate is below 1, and otherwise an upper bound. The default is
    /// `None`, which means no bound.
    pub end: Option<f64>,
}

/// Exponential schedules.
impl Schedule {
    /// Returns the schedule `init · decay_rate^(count / steps)`, like `optax.exponential_decay`. If `steps` or
    /// `decay_rate` is 0, the value is `init`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::exponential(1.0, 0.25, 100);
    /// assert_eq!(schedule.value(50).item::<f64>(), 0.5);
    /// ```
    #[doc(alias("optax.exponential_decay", "torch.optim.lr_scheduler.ExponentialLR"))]
    pub fn exponential(init: f64, decay_rate: f64, steps: usize) -> Self {
        Self::exponential_with(init, decay_rate, steps, ExponentialOptions::default())
    }

    /// Returns an exponential schedule with options: see [`exponential`](Self::exponential).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{DecaySteps, ExponentialOptions, Schedule};
    /// let options = ExponentialOptions { decay_steps: DecaySteps::Staircase, end: Some(0.2) };
    /// let schedule = Schedule::exponential_with(1.0, 0.5, 100, options);
    /// assert_eq!(schedule.value(199).item::<f64>(), 0.5);
    /// assert_eq!(schedule.value(900).item::<f64>(), 0.2);
    /// ```
    pub fn exponential_with(
        init: f64,
        decay_rate: f64,
        steps: usize,
        options: ExponentialOptions,
    ) -> Self {
        if steps == 0 || decay_rate == 0.0 {
            return Self::constant(init);
        }
        Self::of(Exponential {
            init: Tensor::from(init),
            decay_rate: Tensor::from(decay_rate),
            steps: updates_tensor(steps),
            end: options.end.map(Tensor::from),
            decay_steps: options.decay_steps,
        })
    }
}

/// The function of an exponential schedule.
#[derive(Module, Clone, Debug)]
struct Exponential {
    #[state(OptState)]
    init: Tensor,
    #[state(OptState)]
    decay_rate: Tensor,
    #[state(OptState)]
    steps: Tensor,
    #[state(OptState)]
    end: Option<Tensor>,
    #[r#static]
    decay_steps: DecaySteps,
}

impl ScheduleFunction for Exponential {
    fn value(&self, count: &Tensor) -> Tensor {
        let dtype = self.init.dtype();
        let exponent = count.maximum(0).convert(dtype) / self.steps.convert(dtype);
        let exponent = match self.decay_steps {
            DecaySteps::Continuous => exponent,
            DecaySteps::Staircase => exponent.floor(),
        };
        let value = &self.init * self.decay_rate.pow(exponent);
        let Some(end) = &self.end else {
            return value;
        };
        // The decay rate is a leaf, so the comparison with 1 is computed at run time.
        let falls = self.decay_rate.less(1.0);
        falls.select(value.maximum(end), value.minimum(end))
    }
}
