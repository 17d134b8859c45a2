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

pub use self::{
    binary::*, cross_entropy::*, divergence::*, hinge::*, regression::*, similarity::*, softmax::*,
};

pub(crate) use softmax::{check_labels, classes_of};
