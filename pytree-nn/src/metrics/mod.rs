//! Metrics: functions of one batch, and modules that collect a metric over batches.
//!
//! Each metric that collects batches is a pytree whose leaves are states. `update` adds a batch, `merge` adds the
//! examples of another metric, and `compute` returns the metric of all examples that were added. All three methods run
//! under `jit`. Counts are i64 and sums are f64, so that metrics stay accurate over long epochs.

mod classes;
mod confusion;
pub(crate) mod functions;
mod mean;
mod scores;

pub use self::{classes::*, confusion::*, mean::*, scores::*};
