//! Cosine decay, also with a warm-up and with restarts.

use pytree_core::Module;
use pytree_core::kind::OptState;
use pytree_derive::Defaults;
use pytree_transform::Tensor;
use std::f64::consts::PI;

use crate::schedules::schedule::{Schedule, ScheduleFunction, updates_tensor};

/// The options of [`Schedule::cosine_with`], with the defaults of `optax.cosine_decay_schedule`.
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct CosineOptions {
    /// The last value, divided by the first value; by default 0.
    #[default(0.0)]
    pub alpha: f64,
    /// The exponent of the cosine decay; by default 1.
    #[default(1.0)]
    pub exponent: f64,
}

/// The options of [`Schedule::warmup_cosine_with`], a linear warm-up followed by a cosine decay.
///
/// The default schedule has no warm-up, and falls from 1 to 0 in one update. The defaults of `end` and `exponent` are
/// those of `optax.warmup_cosine_decay_schedule`. The default of `init` is the value in the examples of optax.
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct WarmupCosine {
    /// The value at the beginning of the warm-up; by default 0.
    #[default(0.0)]
    pub init: f64,
    /// The value at the end of the warm-up; by default 1.
    #[default(1.0)]
    pub peak: f64,
    /// The number of updates of the warm-up; by default 0.
    #[default(0)]
    pub warmup_steps: usize,
    /// The number of updates of the warm-up and the decay together; by default 1.
    #[default(1)]
    pub decay_steps: usize,
    /// The value at the end of the decay; by default 0.
    #[default(0.0)]
    pub end: f64,
    /// The exponent of the cosine decay; by default 1.
    #[default(1.0)]
    pub exponent: f64,
}

/// Cosine schedules.
impl Schedule {
    /// Returns the schedule that falls from `init` to 0 in `steps` updates along half a cosine wave, like
    /// `optax.cosine_decay_schedule`.
    ///
    /// The value is `init / 2 · (1 + cos(π t / steps))` with t = min(count, `steps`) (Loshchilov and Hutter 2017,
    /// "SGDR: stochastic gradient descent with warm restarts", equation 5).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::cosine(1.0, 100);
    /// assert!((schedule.value(50).item::<f64>() - 0.5).abs() < 1e-12);
    /// assert_eq!(schedule.value(200).item::<f64>(), 0.0);
    /// ```
    ///
    /// # Panics
    /// If `steps` is 0.
    #[doc(alias(
        "optax.cosine_decay_schedule",
        "torch.optim.lr_scheduler.CosineAnnealingLR"
    ))]
    #[track_caller]
    pub fn cosine(init: f64, steps: usize) -> Self {
        Self::cosine_with(init, steps, CosineOptions::default())
    }

    /// Returns a cosine schedule with options: `init · ((1 - α) cᵖ + α)` with c = (1 + cos(π t / `steps`)) / 2,
    /// α = `alpha` and p = `exponent`. See [`cosine`](Self::cosine).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{CosineOptions, Schedule};
    /// let options = CosineOptions { alpha: 0.1, ..CosineOptions::default() };
    /// let schedule = Schedule::cosine_with(2.0, 100, options);
    /// assert_eq!(schedule.value(100).item::<f64>(), 0.2);
    /// ```
    ///
    /// # Panics
    /// If `steps` is 0.
    #[track_caller]
    pub fn cosine_with(init: f64, steps: usize, options: CosineOptions) -> Self {
        assert!(
            steps > 0,
            "cannot make a cosine schedule: expected at least 1 update of decay, found 0"
        );
        #[allow(clippy::float_cmp, reason = "an exponent of exactly 1 needs no power")]
        let exponent = (options.exponent != 1.0).then(|| Tensor::from(options.exponent));
        Self::of(Cosine {
            init: Tensor::from(init),
            alpha: Tensor::from(options.alpha),
            steps: updates_tensor(steps),
            exponent,
        })
    }

    /// Returns the schedule that rises linearly from 0 to `peak` in `warmup_steps` updates, and falls to 0 along a
    /// cosine until update `decay_steps`. See [`warmup_cosine_with`](Self::warmup_cosine_with).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::warmup_cosine(1.0, 10, 110);
    /// assert_eq!(schedule.value(5).item::<f64>(), 0.5);
    /// assert_eq!(schedule.value(10).item::<f64>(), 1.0);
    /// assert!((schedule.value(60).item::<f64>() - 0.5).abs() < 1e-12);
    /// ```
    ///
    /// # Panics
    /// If `decay_steps` is not greater than `warmup_steps`.
    #[doc(alias = "optax.warmup_cosine_decay_schedule")]
    #[track_caller]
    pub fn warmup_cosine(peak: f64, warmup_steps: usize, decay_steps: usize) -> Self {
        Self::warmup_cosine_with(WarmupCosine {
            peak,
            warmup_steps,
            decay_steps,
            ..WarmupCosine::default()
        })
    }

    /// Returns a linear warm-up followed by a cosine decay, like `optax.warmup_cosine_decay_schedule`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{Schedule, WarmupCosine};
    /// let schedule = Schedule::warmup_cosine_with(WarmupCosine {
    ///     peak: 1e-3,
    ///     warmup_steps: 100,
    ///     decay_steps: 1000,
    ///     end: 1e-5,
    ///     ..WarmupCosine::default()
    /// });
    /// assert!((schedule.value(1000).item::<f64>() - 1e-5).abs() < 1e-12);
    /// ```
    ///
    /// # Panics
    /// If `decay_steps` is not greater than `warmup_steps`.
    #[track_caller]
    pub fn warmup_cosine_with(options: WarmupCosine) -> Self {
        let WarmupCosine {
            init,
            peak,
            warmup_steps,
            decay_steps,
            end,
            exponent,
        } = options;
        assert!(
            decay_steps > warmup_steps,
            "cannot make a cosine schedule with a warm-up: expected more than {warmup_steps} updates, the length of the warm-up, found {decay_steps}; `decay_steps` includes the warm-up"
        );
        let alpha = if peak == 0.0 { 0.0 } else { end / peak };
        let decay = Self::cosine_with(
            peak,
            decay_steps - warmup_steps,
            CosineOptions { alpha, exponent },
        );
        let warmup = Self::changing(init, peak, warmup_steps, None);
        Self::joined(warmup, [(warmup_steps, decay)])
    }

    /// Returns a sequence of cosine decays with warm restarts, like `optax.sgdr_schedule` (Loshchilov and Hutter 2017,
    /// "SGDR: stochastic gradient descent with warm restarts"). A cycle is a linear warm-up and a cosine decay, which
    /// together take `decay_steps` updates.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{Schedule, WarmupCosine};
    /// let cycle = |decay_steps| WarmupCosine { peak: 0.1, decay_steps, ..WarmupCosine::default() };
    /// let schedule = Schedule::sgdr([cycle(10), cycle(20), cycle(40)]);
    /// assert_eq!(schedule.value(10).item::<f64>(), 0.1);
    /// ```
    ///
    /// # Panics
    /// If there is no cycle, or if `decay_steps` of a cycle is not greater than its `warmup_steps`.
    #[doc(alias(
        "optax.sgdr_schedule",
        "torch.optim.lr_scheduler.CosineAnnealingWarmRestarts"
    ))]
    #[track_caller]
    pub fn sgdr(cycles: impl IntoIterator<Item = WarmupCosine>) -> Self {
        let mut first = None;
        let mut rest = Vec::new();
        let mut begin = 0;
        for cycle in cycles {
            let schedule = Self::warmup_cosine_with(cycle);
            if first.is_none() {
                first = Some(schedule);
            } else {
                rest.push((begin, schedule));
            }
            begin += cycle.decay_steps;
        }
        let Some(first) = first else {
            panic!("cannot make a schedule with restarts: expected at least 1 cycle, found none");
        };
        Self::joined(first, rest)
    }
}

/// The function of a cosine schedule, which falls along half a cosine wave.
#[derive(Module, Clone, Debug)]
struct Cosine {
    #[state(OptState)]
    init: Tensor,
    #[state(OptState)]
    alpha: Tensor,
    #[state(OptState)]
    steps: Tensor,
    /// `None` for the exponent 1.
    #[state(OptState)]
    exponent: Option<Tensor>,
}

impl ScheduleFunction for Cosine {
    fn value(&self, count: &Tensor) -> Tensor {
        let dtype = self.init.dtype();
        let count = count.minimum(&self.steps).convert(dtype);
        let wave = ((count * PI / self.steps.convert(dtype)).cos() + 1.0) * 0.5;
        let wave = match &self.exponent {
            Some(exponent) => wave.pow(exponent),
            None => wave,
        };
        &self.init * ((1.0 - &self.alpha) * wave + &self.alpha)
    }
}
