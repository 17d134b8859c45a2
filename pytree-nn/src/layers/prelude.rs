//! What nearly every layer names: the derive of a module, tensors, the checks of shapes, and the error of a wrong input.

pub(super) use pytree_core::{Module, shapes};
pub(super) use pytree_derive::panicking_twin;
pub(super) use pytree_transform::{DType, Tensor};

pub(super) use crate::error::InputError;
pub(super) use crate::layers::forward::fallible_forward;
pub(super) use crate::random::Rngs;
