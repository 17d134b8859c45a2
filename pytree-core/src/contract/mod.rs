//! What a type does to be a pytree: it is visited, and built again.

pub(crate) mod kept;
pub(crate) mod pytree;
pub(crate) mod unflatten;
