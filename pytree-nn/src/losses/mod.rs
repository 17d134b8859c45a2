//! Losses: functions that compare predictions with targets.
//!
//! Most losses return one number for each example, or one number for each element. Reduce these numbers with
//! [`Tensor::mean`](pytree_transform::Tensor::mean). If some examples are padding, use
//! [`Tensor::mean_where`](pytree_transform::Tensor::mean_where) with a mask. If examples have weights, use
//! [`Tensor::weighted_mean`](pytree_transform::Tensor::weighted_mean). The losses need no mask arguments of their own.
//!
//! Shapes are compared and never broadcast, because broadcasting would hide mistakes.

mod binary;
mod cross_entropy;
mod divergence;
mod hinge;
mod regression;
mod similarity;
mod softmax;

pub use binary::{
    sigmoid_binary_cross_entropy, sigmoid_focal_loss, try_sigmoid_binary_cross_entropy,
    try_sigmoid_focal_loss,
};
pub use cross_entropy::CrossEntropy;
pub use divergence::{
    kl_divergence, kl_divergence_with_log_targets, normal_kl_divergence, try_kl_divergence,
    try_kl_divergence_with_log_targets, try_normal_kl_divergence,
};
pub use hinge::{hinge_loss, multiclass_hinge_loss, try_hinge_loss, try_multiclass_hinge_loss};
pub use regression::{
    huber_loss, l1_loss, l2_loss, log_cosh, mae, mse, squared_error, try_huber_loss, try_l1_loss,
    try_l2_loss, try_log_cosh, try_mae, try_mse, try_squared_error,
};
pub use similarity::{
    cosine_distance, cosine_similarity, try_cosine_distance, try_cosine_similarity,
};
pub(crate) use softmax::{check_labels, classes_of};
pub use softmax::{
    smooth_labels, softmax_cross_entropy, softmax_cross_entropy_soft, try_smooth_labels,
    try_softmax_cross_entropy, try_softmax_cross_entropy_soft,
};
