//! The type [`Schedule`], and constant and delayed schedules.

use pytree_core::kind::OptState;
use pytree_core::{Module, module_object};
use pytree_transform::{DType, Tensor};

use crate::convert_floats::convert_floats;

/// A function of the number of updates. Implement this trait for your own module, and convert the module into a
/// [`Schedule`] with [`Schedule::of`].
///
/// # Examples
/// ```
/// use pytree_core::Module;
/// use pytree_core::kind::OptState;
/// use pytree_nn::{Schedule, ScheduleFunction, sgd};
/// use pytree_transform::Tensor;
///
/// /// The inverse of the square root of the count.
/// #[derive(Module, Clone, Debug)]
/// struct InverseRoot {
///     #[state(OptState)]
///     init: Tensor,
/// }
///
/// impl ScheduleFunction for InverseRoot {
///     fn value(&self, count: &Tensor) -> Tensor {
///         &self.init / (count.convert(self.init.dtype()) + 1.0).sqrt()
///     }
/// }
/// let schedule = Schedule::of(InverseRoot { init: Tensor::from(0.1) });
/// assert_eq!(schedule.value(3).item::<f64>(), 0.05);
/// let descent = sgd(schedule);
/// ```
#[doc(alias = "torch.optim.lr_scheduler.LambdaLR")]
#[module_object]
pub trait ScheduleFunction {
    /// Returns the value after `count` updates as a scalar float. `count` is `i32[]`, and is 0 for the first update.
    fn value(&self, count: &Tensor) -> Tensor;

    /// Returns the value of a schedule that does not depend on the count, or `None`. The default implementation returns
    /// `None`. An optimizer stores no count for a constant schedule.
    fn constant(&self) -> Option<&Tensor> {
        None
    }
}

/// A number that depends on the count of updates, such as a learning rate.
///
/// Each function that takes a learning rate takes an `impl Into<Schedule>`: a number, a scalar tensor, or a schedule.
/// The values agree with optax. The numbers of a schedule are f64. An optimizer converts these numbers to the widest
/// dtype of the parameters. Schedules that are not constant are converted to f32 if this dtype is narrower. Numbers of
/// updates are `i32`, and larger numbers count as 2³¹ - 1.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Optimizer, Rngs, Schedule, adam};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// // Rises from 0 to 1e-3 in 100 updates, and falls to 0 until update 1000.
/// let rate = Schedule::warmup_cosine(1e-3, 100, 1000);
/// assert_eq!(rate.value(50).item::<f64>(), 0.5e-3);
/// let optimizer = Optimizer::new(&model, adam(rate));
/// ```
#[doc(alias = "torch.optim.lr_scheduler.LRScheduler")]
#[derive(Module, Clone, Debug)]
pub struct Schedule {
    function: Box<dyn ScheduleFunction>,
}

impl Schedule {
    /// Returns a schedule whose value is computed by your own function.
    pub fn of(function: impl ScheduleFunction + 'static) -> Self {
        Self {
            function: Box::new(function),
        }
    }

    /// Returns the schedule whose value is always `value`, like `optax.constant_schedule`. Numbers and scalar tensors
    /// convert into a constant schedule.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// assert_eq!(Schedule::constant(0.1).value(7).item::<f64>(), 0.1);
    /// ```
    #[doc(alias = "optax.constant_schedule")]
    pub fn constant(value: impl Into<Tensor>) -> Self {
        Self::of(Constant {
            value: value.into(),
        })
    }

    /// Returns the schedule delayed by `updates` updates, like the argument `transition_begin` of optax. During the
    /// delay, the value is the first value of the schedule.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::linear(1.0, 0.0, 10).delayed(100);
    /// assert_eq!(schedule.value(100).item::<f64>(), 1.0);
    /// assert_eq!(schedule.value(105).item::<f64>(), 0.5);
    /// ```
    #[must_use]
    pub fn delayed(self, updates: usize) -> Self {
        Self::of(Delayed {
            begin: updates_tensor(updates),
            schedule: self,
        })
    }

    /// Returns the value after `count` updates as a scalar. `count` is 0 for the first update.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::linear(0.0, 1.0, 4);
    /// let values: Vec<f64> = (0..6).map(|count| schedule.value(count).item()).collect();
    /// assert_eq!(values, [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]);
    /// ```
    ///
    /// # Panics
    /// If `count` is traced and its transformation has finished.
    #[track_caller]
    pub fn value(&self, count: impl Into<Tensor>) -> Tensor {
        self.at(&count.into())
    }

    /// Returns the value after `count` updates.
    #[track_caller]
    pub(crate) fn at(&self, count: &Tensor) -> Tensor {
        self.function.value(&count.convert(DType::I32))
    }

    /// Returns the value of a schedule that does not depend on the count, or `None`.
    pub fn as_constant(&self) -> Option<&Tensor> {
        self.function.constant()
    }

    /// Returns the schedule for parameters whose widest dtype is `widest`. A constant schedule is converted to
    /// `widest`. Other schedules are converted to f32 or a wider dtype, because narrower floats cannot represent the
    /// counts.
    pub(crate) fn for_parameters(&self, widest: DType) -> Self {
        if self.as_constant().is_some() {
            convert_floats(self, widest)
        } else {
            convert_floats(self, widest.max(DType::F32))
        }
    }
}

pytree_base::conversions! { Schedule:
    [] f64, |value| Self::constant(value);
    [] f32, |value| Self::constant(value);
    [] Tensor, |value| Self::constant(value);
    [] &Tensor, |value| Self::constant(value.clone());
}

/// The function of a constant schedule.
#[derive(Module, Clone, Debug)]
struct Constant {
    #[state(OptState)]
    value: Tensor,
}

impl ScheduleFunction for Constant {
    fn value(&self, _: &Tensor) -> Tensor {
        self.value.clone()
    }

    fn constant(&self) -> Option<&Tensor> {
        Some(&self.value)
    }
}

/// The function of a delayed schedule.
#[derive(Module, Clone, Debug)]
struct Delayed {
    #[state(OptState)]
    begin: Tensor,
    schedule: Schedule,
}

impl ScheduleFunction for Delayed {
    fn value(&self, count: &Tensor) -> Tensor {
        self.schedule.at(&(count - &self.begin).maximum(0))
    }
}

/// Returns a number of updates as a tensor `i32[]`.
pub(super) fn updates_tensor(updates: usize) -> Tensor {
    Tensor::from(updates_number(updates))
}

/// Returns a number of updates as an i32. A number that is too large becomes the largest i32.
pub(super) fn updates_number(updates: usize) -> i32 {
    i32::try_from(updates).unwrap_or(i32::MAX)
}
