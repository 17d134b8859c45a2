//! What a type does to be a pytree: it is visited, and built again.

pub(crate) mod arena;
pub(crate) mod commit;
pub(crate) mod flatten;
pub(crate) mod handles;
pub(crate) mod matching;
pub(crate) mod pytree;
pub(crate) mod turn;
pub(crate) mod unflatten;
