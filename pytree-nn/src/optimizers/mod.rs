//! Optimizers: chains of gradient transformations, as in optax.
//!
//! A [`GradientTransformation`] turns gradients into updates and stores its state in leaves. A [`Chain`] is a sequence
//! of gradient transformations; [`adam`] and similar functions return chains. An [`Optimizer`] applies a chain to a
//! model. Learning rates and counts are leaves, so a change does not cause a retrace. The other constants are static.

mod adam;
mod clip;
mod error;
mod optimizer;
mod rate;
mod trace;
mod transformation;
mod weight_decay;

pub use adam::{ScaleByAdam, adam, adam_with, adamw, adamw_with, scale_by_adam};
pub use clip::{ClipByGlobalNorm, clip_by_global_norm};
pub use error::{GradientProblem, OptimizerError};
pub use optimizer::{MissingGradients, Optimizer};
pub use rate::{ScaleByLearningRate, scale_by_learning_rate, sgd};
pub use trace::{Momentum, Trace, sgd_momentum, trace};
pub use transformation::{Chain, GradientTransformation, chain};
pub use weight_decay::{AddDecayedWeights, add_decayed_weights};
