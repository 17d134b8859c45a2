//! Normalisation by mean and variance: of a batch, of each example, or of groups of features.
//!
//! The layers define the axes of the statistics and of the parameters. `statistics.rs` computes the statistics, and
//! `options.rs` has the options of new layers. Axes, constants and modes are public static fields: change them by
//! assignment, or write `..BatchNorm::new(…)`.

mod batch_norm;
mod group_norm;
mod instance_norm;
mod layer_norm;
mod options;
mod statistics;

pub use batch_norm::BatchNorm;
pub use group_norm::GroupNorm;
pub use instance_norm::InstanceNorm;
pub use layer_norm::{LayerNorm, RmsNorm};
pub use options::{NormOptions, VarianceFormula};
pub(in crate::layers) use statistics::positions;
