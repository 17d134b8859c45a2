//! The primitives. Each file holds one family of primitives with all their rules.

pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod callback;
pub(crate) mod collectives;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod convolution;
pub(crate) mod create;
pub(crate) mod cumulative;
pub(crate) mod custom_vjp;
pub(crate) mod dot;
pub(crate) mod elementwise;
pub(crate) mod gather;
#[cfg(feature = "linalg")]
pub(crate) mod linalg;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod reduce_window;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod sharding;
pub(crate) mod slice;
pub(crate) mod sliding;
pub(crate) mod sort;
pub(crate) mod tangent;
