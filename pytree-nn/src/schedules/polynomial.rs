//! Linear and polynomial schedules.

use pytree_core::Module;
use pytree_core::kind::OptState;
use pytree_transform::Tensor;

use crate::schedules::schedule::{Schedule, ScheduleFunction, updates_tensor};

/// Schedules that change linearly or polynomially between two values.
impl Schedule {
    /// Returns the schedule that changes linearly from `init` to `end` in `steps` updates, like
    /// `optax.linear_schedule`. The value is `(init - end) (1 - t / steps) + end` with t = min(count, `steps`).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::linear(1.0, 0.5, 100);
    /// assert_eq!(schedule.value(50).item::<f64>(), 0.75);
    /// assert_eq!(schedule.value(1000).item::<f64>(), 0.5);
    /// ```
    ///
    /// # Panics
    /// If `steps` is 0. In optax, the value is then `init`, and never `end`.
    #[doc(alias("optax.linear_schedule", "torch.optim.lr_scheduler.LinearLR"))]
    #[track_caller]
    pub fn linear(init: f64, end: f64, steps: usize) -> Self {
        assert!(
            steps > 0,
            "cannot make a linear schedule: expected at least 1 update of change, found 0; for one value, use `Schedule::constant`"
        );
        Self::changing(init, end, steps, None)
    }

    /// Returns the schedule that changes from `init` to `end` in `steps` updates along a polynomial, like
    /// `optax.polynomial_schedule`. The value is `(init - end) (1 - t / steps)ᵖ + end` with t = min(count, `steps`) and
    /// p = `power`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::polynomial(1.0, 0.0, 100, 2.0);
    /// assert_eq!(schedule.value(50).item::<f64>(), 0.25);
    /// ```
    ///
    /// # Panics
    /// If `steps` is 0. In optax, the value is then `init`, and never `end`.
    #[doc(alias("optax.polynomial_schedule", "torch.optim.lr_scheduler.PolynomialLR"))]
    #[track_caller]
    pub fn polynomial(init: f64, end: f64, steps: usize, power: f64) -> Self {
        assert!(
            steps > 0,
            "cannot make a polynomial schedule: expected at least 1 update of change, found 0; for one value, use `Schedule::constant`"
        );
        Self::changing(init, end, steps, Some(Tensor::from(power)))
    }

    /// Returns a linear or polynomial schedule, or the constant `init` if `steps` is 0: a warm-up may have no update.
    pub(super) fn changing(init: f64, end: f64, steps: usize, power: Option<Tensor>) -> Self {
        if steps == 0 {
            return Self::constant(init);
        }
        Self::of(Polynomial {
            init: Tensor::from(init),
            end: Tensor::from(end),
            steps: updates_tensor(steps),
            power,
        })
    }
}

/// The function of a linear or polynomial schedule.
#[derive(Module, Clone, Debug)]
struct Polynomial {
    #[state(OptState)]
    init: Tensor,
    #[state(OptState)]
    end: Tensor,
    #[state(OptState)]
    steps: Tensor,
    /// `None` for a linear schedule.
    #[state(OptState)]
    power: Option<Tensor>,
}

impl ScheduleFunction for Polynomial {
    fn value(&self, count: &Tensor) -> Tensor {
        let dtype = self.init.dtype();
        let count = count.maximum(0).minimum(&self.steps);
        let rest = 1.0 - count.convert(dtype) / self.steps.convert(dtype);
        let rest = match &self.power {
            Some(power) => rest.pow(power),
            None => rest,
        };
        (&self.init - &self.end) * rest + &self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(
        expected = "cannot make a linear schedule: expected at least 1 update of change, found 0"
    )]
    fn linear_schedule_has_an_update() {
        let _ = Schedule::linear(0.0, 1.0, 0);
    }

    #[test]
    #[should_panic(expected = "cannot make a polynomial schedule: expected at least 1 update")]
    fn polynomial_schedule_has_an_update() {
        let _ = Schedule::polynomial(0.0, 1.0, 0, 2.0);
    }

    #[test]
    fn warmup_without_updates_begins_at_peak() {
        let schedule = Schedule::warmup_cosine(0.5, 0, 10);
        assert_eq!(schedule.value(0).item::<f64>().to_bits(), 0.5_f64.to_bits());
    }
}
