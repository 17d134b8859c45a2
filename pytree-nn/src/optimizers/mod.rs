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

pub use accumulate::{Accumulation, accumulate, accumulate_with};
pub use adabelief::{adabelief, adabelief_with, scale_by_belief};
pub use adadelta::{AdadeltaOptions, adadelta, adadelta_with, scale_by_adadelta};
pub use adafactor::{
    AdafactorOptions, FactoredRmsOptions, ParameterScale, adafactor, adafactor_with,
    scale_by_factored_rms,
};
pub use adagrad::{AdagradOptions, adagrad, adagrad_with, scale_by_sum_of_squares};
pub use adam::{
    AdamOptions, ScaleByAdam, adam, adam_with, adamw, adamw_with, nadam, nadamw, scale_by_adam,
};
pub use adamax::{AdamaxOptions, adamax, adamax_with, adamaxw, scale_by_adamax};
pub use amsgrad::{AmsgradOptions, BiasCorrection, amsgrad, amsgrad_with, scale_by_amsgrad};
pub use clip::{
    ClipByGlobalNorm, adaptive_gradient_clip, clip_by_block_rms, clip_by_global_norm,
    clip_by_leaf_norm, clip_by_value,
};
pub use ema::{ema, ema_with};
pub use error::{GradientProblem, OptimizerError};
pub use groups::{groups, groups_by_label, masked, set_to_zero};
pub use guards::{apply_if_finite, centralize, normalize_by_global_norm, zero_nans};
pub use lion::{LionOptions, lion, lion_with, scale_by_lion, scale_by_sign, sign_sgd, signum};
pub use loss_scale::{DynamicLossScaleOptions, LossScale};
pub use norm::global_norm;
pub use novograd::{NovogradOptions, novograd, novograd_with, scale_by_novograd};
pub use optimizer::{MissingGradients, Optimizer};
pub use parameter_average::ParameterAverage;
pub use radam::{RadamOptions, radam, radam_with, scale_by_radam};
pub use rate::{ScaleByLearningRate, scale, scale_by_learning_rate, scale_by_schedule, sgd};
pub use rmsprop::{Centering, EpsilonPlace, RmsPropOptions, rmsprop, rmsprop_with, scale_by_rms};
pub use trace::{Momentum, Trace, sgd_momentum, trace};
pub use transformation::{Chain, GradientTransformation, chain};
pub use trust_ratio::{
    LambOptions, LarsOptions, TrustRatioOptions, lamb, lamb_with, lars, lars_with,
    scale_by_trust_ratio,
};
pub use weight_decay::{AddDecayedWeights, WeightDecay, add_decayed_weights};
pub use yogi::{YogiOptions, scale_by_yogi, yogi, yogi_with};
