//! Optimizers: chains of gradient transformations, as in optax.
//!
//! A [`GradientTransformation`] turns gradients into updates and stores its state in leaves. A [`Chain`] is a sequence
//! of gradient transformations. Functions such as [`adam`] return chains. An [`Optimizer`] applies a chain to a model.
//! Learning rates and counts are leaves, so a change of these numbers does not cause a retrace. All other constants are
//! static.
//!
//! Most optimizers have a function that takes the learning rate, such as [`adam`], and a function that also takes
//! options, such as [`adam_with`]. The options are a struct whose default values are those of optax.

mod accumulate;
mod adabelief;
mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
mod amsgrad;
mod clip;
mod ema;
mod error;
mod groups;
mod guards;
mod lion;
mod loss_scale;
mod moments;
mod norm;
mod novograd;
mod optimizer;
mod parameter_average;
mod prelude;
mod radam;
mod ranges;
mod rate;
mod rmsprop;
mod scheduled;
mod selection;
mod trace;
mod transformation;
mod trust_ratio;
mod weight_decay;
mod yogi;

pub use self::moments::Momentum;
pub use self::{
    accumulate::*, adabelief::*, adadelta::*, adafactor::*, adagrad::*, adam::*, adamax::*,
    amsgrad::*, clip::*, ema::*, error::*, groups::*, guards::*, lion::*, loss_scale::*, norm::*,
    novograd::*, optimizer::*, parameter_average::*, radam::*, rate::*, rmsprop::*, trace::*,
    transformation::*, trust_ratio::*, weight_decay::*, yogi::*,
};
