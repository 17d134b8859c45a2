//! Normalisation by mean and variance: of a batch, of each example, or of groups of features.
//!
//! Each layer chooses the axes of its statistics and of its parameters. `statistics.rs` computes the statistics, and
//! `options.rs` has the options of new layers. Axes, constants and modes are public static fields. Change a field by
//! assignment, or with the syntax `..BatchNorm::new(…)`.

mod batch_norm;
mod group_norm;
mod instance_norm;
mod layer_norm;
mod options;
mod statistics;

pub use self::{batch_norm::*, group_norm::*, instance_norm::*, layer_norm::*, options::*};

pub(in crate::layers) use statistics::positions;
