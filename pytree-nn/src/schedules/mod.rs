//! Schedules: numbers that depend on the count of updates, such as learning rates.
//!
//! The numbers of a [`Schedule`] are leaves, so other numbers of the same schedule do not cause a retrace. A schedule is
//! evaluated from the count inside of a compiled function.

mod cosine;
mod exponential;
mod interpolated;
mod joined;
mod polynomial;
mod schedule;

pub use cosine::{CosineOptions, WarmupCosine};
pub use exponential::{DecaySteps, ExponentialOptions};
pub use interpolated::{CosineOneCycleOptions, LinearOneCycleOptions};
pub use schedule::{Schedule, ScheduleFunction};
