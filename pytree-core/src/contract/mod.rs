//! The contract of a pytree: a value is visited (flattened), and built again (unflattened).

pub(crate) mod arena;
pub(crate) mod commit;
pub(crate) mod depth;
pub(crate) mod flatten;
pub(crate) mod handles;
pub(crate) mod matching;
pub(crate) mod obstacle;
pub(crate) mod pytree;
pub(crate) mod recent;
pub(crate) mod turn;
pub(crate) mod unflatten;
