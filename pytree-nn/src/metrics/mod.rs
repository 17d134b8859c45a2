//! Metrics: functions of one batch, and modules that collect a metric over batches.
//!
//! A module of this folder is a pytree whose leaves are states. `update` adds a batch, `merge` adds what another metric has
//! collected, and `compute` returns the metric of all examples so far. All of them run under `jit`. Counts are i64 and sums
//! are f64, so that nothing is lost over long epochs.

mod classes;
mod confusion;
pub(crate) mod functions;
mod mean;
mod scores;

pub use classes::{Accuracy, TopKAccuracy};
pub use confusion::ConfusionMatrix;
pub use mean::{Mean, Perplexity};
pub use scores::{Averaging, F1, Precision, Recall};
