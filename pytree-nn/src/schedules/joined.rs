//! Sequences of schedules.

use pytree_base::bug::pairs;
use pytree_core::Module;
use pytree_core::kind::OptState;
use pytree_transform::Tensor;

use crate::schedules::schedule::{Schedule, ScheduleFunction, updates_tensor};

/// Joined schedules.
impl Schedule {
    /// Returns a sequence of schedules, like `optax.join_schedules`.
    ///
    /// The sequence begins with `first`. Each pair in `later` is a boundary and the schedule that begins at this
    /// boundary. The schedule counts its updates from the boundary.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Schedule;
    /// let schedule = Schedule::joined(
    ///     Schedule::linear(0.0, 1.0, 10),
    ///     [(10, Schedule::constant(1.0)), (100, Schedule::exponential(1.0, 0.5, 10))],
    /// );
    /// assert_eq!(schedule.value(5).item::<f64>(), 0.5);
    /// assert_eq!(schedule.value(50).item::<f64>(), 1.0);
    /// assert_eq!(schedule.value(110).item::<f64>(), 0.5);
    /// ```
    #[doc(alias("optax.join_schedules", "torch.optim.lr_scheduler.SequentialLR"))]
    pub fn joined(
        first: impl Into<Self>,
        later: impl IntoIterator<Item = (usize, impl Into<Self>)>,
    ) -> Self {
        let (boundaries, later): (Vec<Tensor>, Vec<Self>) = later
            .into_iter()
            .map(|(boundary, schedule)| (updates_tensor(boundary), schedule.into()))
            .unzip();
        Self::of(Joined {
            first: first.into(),
            boundaries,
            later,
        })
    }
}

/// The function of joined schedules. Each later schedule begins at a boundary.
#[derive(Module, Clone, Debug)]
struct Joined {
    first: Schedule,
    #[state(OptState)]
    boundaries: Vec<Tensor>,
    later: Vec<Schedule>,
}

impl ScheduleFunction for Joined {
    fn value(&self, count: &Tensor) -> Tensor {
        let parts = pairs(
            &self.boundaries,
            &self.later,
            "a boundary for each schedule",
        );
        parts.fold(self.first.at(count), |before, (boundary, schedule)| {
            let after = schedule.at(&(count - boundary));
            count.less(boundary).select(&before, &after)
        })
    }
}
