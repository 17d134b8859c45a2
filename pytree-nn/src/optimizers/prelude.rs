//! What nearly every transformation of gradients names: its traits, the states of parameters, running means, and the checks of
//! its options.

pub(super) use pytree_core::kind::OptState;
pub(super) use pytree_core::{Module, Static, Tree};
pub(super) use pytree_derive::Defaults;
pub(super) use pytree_transform::{AbstractArray, DType, Tensor};

pub(super) use crate::hyperparameter::{Hyperparameter, NamedHyperparameter};
pub(super) use crate::optimizers::moments::{
    count_update, deviation, each, running_mean, running_square_mean, zeros,
};
pub(super) use crate::optimizers::ranges::{below_one, fraction, not_negative};
pub(super) use crate::optimizers::transformation::{
    Chain, GradientTransformation, Scalar, differing,
};
pub(super) use crate::schedules::Schedule;
