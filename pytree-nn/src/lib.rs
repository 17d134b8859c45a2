//! Neural networks on pytrees: random numbers, layers, losses, optimizers and summaries.
//!
//! This crate consists of modules and functions of tensors, which use only public functions of the other crates. To
//! write your own layer, derive `Module` for a struct. To write your own optimizer, implement
//! [`GradientTransformation`].
//!
//! # Examples
//! A compiled training step:
//! ```
//! use pytree_nn::{Activation, Mlp, Optimizer, Rngs, adam, softmax_cross_entropy};
//! use pytree_transform::{DType, Tensor, jit, value_and_grad};
//!
//! let mut rngs = Rngs::new(0);
//! let mut model = Mlp::new(&[4, 16, 3], Activation::Relu, &mut rngs);
//! let mut optimizer = Optimizer::new(&model, adam(1e-2));
//! let x = rngs.normal(DType::F32, [8, 4]);
//! let y = Tensor::from([0, 1, 2, 0, 1, 2, 0, 1]);
//!
//! let step = jit(|(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
//!     let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
//!     let (loss, gradients) = value_and_grad(loss)(&model);
//!     optimizer.update(&mut model, &gradients);
//!     (model, optimizer, loss)
//! });
//! let mut losses = Vec::new();
//! for _ in 0..20 {
//!     let loss;
//!     (model, optimizer, loss) = step((model, optimizer, x.clone(), y.clone()));
//!     losses.push(loss.item::<f32>());
//! }
//! assert!(losses[19] < losses[0]);
//! ```

mod convert_floats;
mod error;
mod functions;
mod hyperparameter;
mod initializers;
mod intermediates;
mod layers;
mod losses;
pub mod metrics;
mod mixed_precision;
mod model;
mod optimizers;
mod random;
mod schedules;
mod summary;

pub use convert_floats::convert_floats;
pub use error::InputError;
pub use functions::{
    celu, digamma, elu, gelu, gelu_exact, glu, hard_sigmoid, hard_silu, hard_tanh, leaky_relu,
    lgamma, log_sigmoid, log_softmax, logsumexp, mish, polygamma, relu, relu6, selu, sigmoid, silu,
    sinc, soft_sign, softmax, softplus, squareplus, standardize,
};
pub use hyperparameter::{Hyperparameter, NamedHyperparameter};
pub use initializers::{Distribution, Fan, FanAxes, Initializer};
pub use intermediates::{
    Intermediates, PerturbationError, Perturbed, Sown, capture, capture_outputs, try_capture,
};
pub use layers::{
    Activation, BatchNorm, Bidirectional, CellOptions, Conv, ConvOptions, ConvPadding,
    ConvTranspose, ConvTransposeOptions, Dropout, Einsum, EinsumOptions, Embed, EmbedOptions,
    Flatten, Forward, GroupNorm, GruCell, Identity, InstanceNorm, Lambda, LayerNorm, Linear,
    LinearGeneral, LinearGeneralOptions, LinearOptions, Lora, LoraAdapter, LoraParam, LstmCell,
    MatrixLayout, Mlp, Mode, NormOptions, PRelu, PerAxis, Pool, RecurrentCell, Reduction, RmsNorm,
    Rnn, Sequential, SimpleCell, SpectralNorm, SpectralState, VarianceFormula, WeightNorm,
    WeightScale, WrapError, avg_pool, eval, eval_where, max_pool, min_pool, train, train_where,
};
pub use layers::{
    AttentionDirection, AttentionOptions, DropoutMask, HeadNorm, HeadProjection, KeyValueCache,
    LearnedPositions, MultiHeadAttention, MultiHeadAttentionOptions, NormOrder, OutputProjection,
    RotaryScaling, SinusoidalPositions, TransformerBlock, TransformerBlockOptions, causal_mask,
    combine_masks, dot_product_attention, padding_mask, rotary, sinusoidal_positions,
    try_dot_product_attention, try_rotary, window_mask, with_cache,
};
pub use losses::{
    CrossEntropy, cosine_distance, cosine_similarity, hinge_loss, huber_loss, kl_divergence,
    kl_divergence_with_log_targets, l1_loss, l2_loss, log_cosh, mae, mse, multiclass_hinge_loss,
    normal_kl_divergence, sigmoid_binary_cross_entropy, sigmoid_focal_loss, smooth_labels,
    softmax_cross_entropy, softmax_cross_entropy_soft, squared_error, try_cosine_distance,
    try_cosine_similarity, try_hinge_loss, try_huber_loss, try_kl_divergence,
    try_kl_divergence_with_log_targets, try_l1_loss, try_l2_loss, try_log_cosh, try_mae, try_mse,
    try_multiclass_hinge_loss, try_normal_kl_divergence, try_sigmoid_binary_cross_entropy,
    try_sigmoid_focal_loss, try_smooth_labels, try_softmax_cross_entropy,
    try_softmax_cross_entropy_soft, try_squared_error,
};
pub use metrics::functions::{accuracy, confusion_matrix, try_accuracy, try_confusion_matrix};
pub use mixed_precision::MixedPrecision;
pub use model::Model;
pub use optimizers::{
    Accumulation, AdadeltaOptions, AdafactorOptions, AdagradOptions, AdamOptions, AdamaxOptions,
    AddDecayedWeights, AmsgradOptions, BiasCorrection, Centering, Chain, ClipByGlobalNorm,
    DynamicLossScaleOptions, EpsilonPlace, FactoredRmsOptions, GradientProblem,
    GradientTransformation, LambOptions, LarsOptions, LionOptions, LossScale, MissingGradients,
    Momentum, NovogradOptions, Optimizer, OptimizerError, ParameterAverage, ParameterScale,
    RadamOptions, RmsPropOptions, ScaleByAdam, ScaleByLearningRate, Trace, TrustRatioOptions,
    WeightDecay, YogiOptions, accumulate, accumulate_with, adabelief, adabelief_with, adadelta,
    adadelta_with, adafactor, adafactor_with, adagrad, adagrad_with, adam, adam_with, adamax,
    adamax_with, adamaxw, adamw, adamw_with, adaptive_gradient_clip, add_decayed_weights, amsgrad,
    amsgrad_with, apply_if_finite, centralize, chain, clip_by_block_rms, clip_by_global_norm,
    clip_by_leaf_norm, clip_by_value, ema, ema_with, global_norm, groups, groups_by_label, lamb,
    lamb_with, lars, lars_with, lion, lion_with, masked, nadam, nadamw, normalize_by_global_norm,
    novograd, novograd_with, radam, radam_with, rmsprop, rmsprop_with, scale, scale_by_adadelta,
    scale_by_adam, scale_by_adamax, scale_by_amsgrad, scale_by_belief, scale_by_factored_rms,
    scale_by_learning_rate, scale_by_lion, scale_by_novograd, scale_by_radam, scale_by_rms,
    scale_by_schedule, scale_by_sign, scale_by_sum_of_squares, scale_by_trust_ratio, scale_by_yogi,
    set_to_zero, sgd, sgd_momentum, sign_sgd, signum, trace, yogi, yogi_with, zero_nans,
};
pub use random::{FoldIn, Key, Replacement, RngError, RngStream, Rngs, reseed, with_rngs};
pub use schedules::{
    CosineOneCycleOptions, CosineOptions, DecaySteps, ExponentialOptions, LinearOneCycleOptions,
    Schedule, ScheduleFunction, WarmupCosine,
};
pub use summary::{Summary, SummaryRow, summary};

/// Items that the macros of this crate refer to.
#[doc(hidden)]
pub mod private {
    pub use pytree_transform::Tensor;
}
