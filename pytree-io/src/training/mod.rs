//! Records of a training run: progress, metrics in a file, early stopping, and pictures of learning curves.
//!
//! Nothing here calls the training loop or is called by the library. The loop calls what it needs.

mod curves;
mod early_stopping;
mod error;
mod metrics_log;
mod progress;
mod ticks;

pub use curves::{Curves, save_curves};
pub use early_stopping::{EarlyStopping, Verdict};
pub use error::TrainingError;
pub use metrics_log::{MetricsLog, MetricsRecord};
pub use progress::{Progress, ProgressStyle};
pub use pytree_store::Goal;
