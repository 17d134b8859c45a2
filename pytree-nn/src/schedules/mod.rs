//! Schedules: numbers that depend on the count of updates, such as learning rates.
//!
//! The numbers of a [`Schedule`] are leaves, so a change of these numbers does not cause a retrace. A compiled function
//! computes the value of a schedule from the count.

mod cosine;
mod exponential;
mod interpolated;
mod joined;
mod polynomial;
mod schedule;

pub use self::{cosine::*, exponential::*, interpolated::*, schedule::*};
