//! Normalisation by mean and variance: of the batch, of each example, or of groups of its features.
//!
//! The layers say over which axes statistics are taken and along which there are parameters;
//! `statistics.rs` computes. Axes, constants and modes are public static fields: what `new` gives is
//! changed by assignment, or by `..BatchNorm::new(…)`.

mod batch_norm;
mod group_norm;
mod layer_norm;
mod statistics;

pub use batch_norm::BatchNorm;
pub use group_norm::GroupNorm;
pub use layer_norm::{LayerNorm, RmsNorm};
