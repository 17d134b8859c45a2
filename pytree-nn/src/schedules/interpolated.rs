//! Schedules with given values at boundaries. Between two boundaries, the value is constant or interpolated.

use std::f64::consts::PI;

use pytree_core::kind::OptState;
use pytree_core::{Module, Static};
use pytree_derive::Defaults;
use pytree_transform::{Tensor, ix};

use crate::schedules::schedule::{Schedule, ScheduleFunction, updates_number};

/// The options of [`Schedule::linear_one_cycle_with`], with the defaults of `optax.linear_onecycle_schedule`.
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct LinearOneCycleOptions {
    /// The fraction of the steps after which the value reaches its peak; by default 0.3.
    #[default(0.3)]
    pub rising_part: f64,
    /// The fraction of the steps after which the value has returned to the first value; by default 0.85.
    #[default(0.85)]
    pub falling_part: f64,
    /// The peak divided by the first value; by default 25.
    #[default(25.0)]
    pub initial_divisor: f64,
    /// The first value divided by the last value; by default 10⁴.
    #[default(1e4)]
    pub final_divisor: f64,
}

/// The options of [`Schedule::cosine_one_cycle_with`], with the defaults of `optax.cosine_onecycle_schedule`.
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct CosineOneCycleOptions {
    /// The fraction of the steps after which the value reaches its peak; by default 0.3.
    #[default(0.3)]
    pub rising_part: f64,
    /// The peak divided by the first value; by default 25.
    #[default(25.0)]
    pub initial_divisor: f64,
    /// The first value divided by the last value; by default 10⁴.
    #[default(1e4)]
    pub final_divisor: f64,
}

/// Schedules that are multiplied by factors at boundaries.
impl Schedule {
    /// Returns the schedule that begins with `init` and multiplies its value by a factor at each boundary, like
    /// `optax.piecewise_constant_schedule`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::piecewise_constant(1.0, [(100, 0.5), (200, 0.5)]);
    /// let values: Vec<f64> = [99, 100, 200].map(|count| schedule.value(count).item()).into();
    /// assert_eq!(values, [1.0, 0.5, 0.25]);
    /// ```
    #[doc(alias(
        "optax.piecewise_constant_schedule",
        "torch.optim.lr_scheduler.MultiStepLR"
    ))]
    pub fn piecewise_constant(
        init: f64,
        boundaries_and_factors: impl IntoIterator<Item = (usize, f64)>,
    ) -> Self {
        Self::with_values(init, boundaries_and_factors, Between::Constant)
    }

    /// Returns the schedule that interpolates linearly between the values of
    /// [`piecewise_constant`](Self::piecewise_constant) at the boundaries, like
    /// `optax.piecewise_interpolate_schedule("linear", …)`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::piecewise_linear(1.0, [(10, 3.0), (20, 0.0)]);
    /// let values: Vec<f64> = [5, 10, 15, 30].map(|count| schedule.value(count).item()).into();
    /// assert_eq!(values, [2.0, 3.0, 1.5, 0.0]);
    /// ```
    #[doc(alias = "optax.piecewise_interpolate_schedule")]
    pub fn piecewise_linear(
        init: f64,
        boundaries_and_factors: impl IntoIterator<Item = (usize, f64)>,
    ) -> Self {
        Self::with_values(init, boundaries_and_factors, Between::Linear)
    }

    /// Returns the schedule that interpolates along half a cosine wave between the values of
    /// [`piecewise_constant`](Self::piecewise_constant) at the boundaries, like
    /// `optax.piecewise_interpolate_schedule("cosine", …)`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::piecewise_cosine(1.0, [(10, 3.0)]);
    /// assert!((schedule.value(5).item::<f64>() - 2.0).abs() < 1e-12);
    /// ```
    #[doc(alias = "optax.piecewise_interpolate_schedule")]
    pub fn piecewise_cosine(
        init: f64,
        boundaries_and_factors: impl IntoIterator<Item = (usize, f64)>,
    ) -> Self {
        Self::with_values(init, boundaries_and_factors, Between::Cosine)
    }

    /// Returns the schedule with one cycle of three linear phases in `steps` updates, like
    /// `optax.linear_onecycle_schedule`.
    ///
    /// The value rises to `peak`, falls back to its first value, and then falls to its last value (Smith and Topin
    /// 2017, "Super-convergence: very fast training of neural networks using large learning rates").
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::linear_one_cycle(0.5, 100);
    /// assert_eq!(schedule.value(0).item::<f64>(), 0.02);
    /// assert_eq!(schedule.value(30).item::<f64>(), 0.5);
    /// ```
    ///
    /// # Panics
    /// If `steps` is 0.
    #[doc(alias = "optax.linear_onecycle_schedule")]
    #[track_caller]
    pub fn linear_one_cycle(peak: f64, steps: usize) -> Self {
        Self::linear_one_cycle_with(peak, steps, LinearOneCycleOptions::default())
    }

    /// Returns a linear schedule of one cycle with options: see [`linear_one_cycle`](Self::linear_one_cycle).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{LinearOneCycleOptions, Schedule};
    /// let options = LinearOneCycleOptions { rising_part: 0.5, ..LinearOneCycleOptions::default() };
    /// let schedule = Schedule::linear_one_cycle_with(0.5, 100, options);
    /// assert_eq!(schedule.value(50).item::<f64>(), 0.5);
    /// ```
    ///
    /// # Panics
    /// If `steps` is 0.
    #[track_caller]
    pub fn linear_one_cycle_with(peak: f64, steps: usize, options: LinearOneCycleOptions) -> Self {
        check_cycle(steps);
        let factors = [
            (part(options.rising_part, steps), options.initial_divisor),
            (
                part(options.falling_part, steps),
                1.0 / options.initial_divisor,
            ),
            (steps, 1.0 / options.final_divisor),
        ];
        Self::piecewise_linear(peak / options.initial_divisor, factors)
    }

    /// Returns the schedule with one cycle of two cosine phases in `steps` updates, like
    /// `optax.cosine_onecycle_schedule`. The value rises to `peak`, and then falls to its last value. See
    /// [`linear_one_cycle`](Self::linear_one_cycle) for the source.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::cosine_one_cycle(0.5, 100);
    /// assert_eq!(schedule.value(30).item::<f64>(), 0.5);
    /// ```
    ///
    /// # Panics
    /// If `steps` is 0.
    #[doc(alias(
        "optax.cosine_onecycle_schedule",
        "torch.optim.lr_scheduler.OneCycleLR"
    ))]
    #[track_caller]
    pub fn cosine_one_cycle(peak: f64, steps: usize) -> Self {
        Self::cosine_one_cycle_with(peak, steps, CosineOneCycleOptions::default())
    }

    /// Returns a cosine schedule of one cycle with options: see [`cosine_one_cycle`](Self::cosine_one_cycle).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{CosineOneCycleOptions, Schedule};
    /// let options = CosineOneCycleOptions { initial_divisor: 10.0, ..CosineOneCycleOptions::default() };
    /// let schedule = Schedule::cosine_one_cycle_with(0.5, 100, options);
    /// assert!((schedule.value(0).item::<f64>() - 0.05).abs() < 1e-12);
    /// ```
    ///
    /// # Panics
    /// If `steps` is 0.
    #[track_caller]
    pub fn cosine_one_cycle_with(peak: f64, steps: usize, options: CosineOneCycleOptions) -> Self {
        check_cycle(steps);
        let last = 1.0 / (options.initial_divisor * options.final_divisor);
        let factors = [
            (part(options.rising_part, steps), options.initial_divisor),
            (steps, last),
        ];
        Self::piecewise_cosine(peak / options.initial_divisor, factors)
    }

    fn with_values(
        init: f64,
        boundaries_and_factors: impl IntoIterator<Item = (usize, f64)>,
        between: Between,
    ) -> Self {
        let mut factors: Vec<(usize, f64)> = boundaries_and_factors.into_iter().collect();
        if factors.is_empty() {
            return Self::constant(init);
        }
        factors.sort_by_key(|(boundary, _)| *boundary);
        let (mut boundaries, mut values) = (vec![0], vec![init]);
        let mut value = init;
        for (boundary, factor) in factors {
            value *= factor;
            boundaries.push(updates_number(boundary));
            values.push(value);
        }
        Self::of(Interpolated {
            boundaries: Tensor::from(boundaries),
            values: Tensor::from(values),
            between,
        })
    }
}

/// Panics if the number of steps of a cycle is 0.
#[track_caller]
fn check_cycle(steps: usize) {
    assert!(
        steps > 0,
        "cannot make a schedule with one cycle: expected at least 1 update, found 0"
    );
}

/// Returns the given part of `steps`, rounded down.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a count is a count; a negative part is 0"
)]
fn part(part: f64, steps: usize) -> usize {
    (part * steps as f64) as usize
}

/// How a schedule changes between two boundaries.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Between {
    Constant,
    Linear,
    Cosine,
}

/// The function of a schedule with values at boundaries.
#[derive(Module, Clone, Debug)]
struct Interpolated {
    /// The counts at which the schedule reaches the values: `i32[boundaries]`. The first count is 0.
    #[state(OptState)]
    boundaries: Tensor,
    /// The values at the boundaries.
    #[state(OptState)]
    values: Tensor,
    #[r#static]
    between: Between,
}

impl ScheduleFunction for Interpolated {
    fn value(&self, count: &Tensor) -> Tensor {
        let begins = |tensor: &Tensor| tensor.index(ix![..-1]);
        let ends = |tensor: &Tensor| tensor.index(ix![1..]);
        let (begin, end) = (begins(&self.boundaries), ends(&self.boundaries));
        let (from, to) = (begins(&self.values), ends(&self.values));
        let dtype = self.values.dtype();
        let part = (count - &begin).convert(dtype) / (&end - &begin).maximum(1).convert(dtype);
        let between = match self.between {
            Between::Constant => from,
            Between::Linear => (&to - &from) * part + &from,
            Between::Cosine => (&from - &to) / 2.0 * ((part * PI).cos() + 1.0) + &to,
        };
        // A count is in at most one interval, so at most one term of the sum is not 0.
        let within = (begin.less_equal(count).convert(dtype)) * count.less(&end).convert(dtype);
        let last = self.boundaries.index(ix![-1]).less_equal(count);
        (within * between).sum() + last.convert(dtype) * self.values.index(ix![-1])
    }
}
