//! The primitives. Each file holds one family of primitives with all their rules.
//!
//! Rules depend on shapes and never on values, so they can be traced themselves. A tangent that is zero is `None`.
//!
//! An operation that other primitives can express is not a primitive, unless its parts need much more memory or time. Sorting and
//! slices that begin at a tensor are gathers. Convolutions and reductions of windows are primitives: composed of other primitives,
//! they would store all windows.

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
pub(crate) mod prelude;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod reduce_window;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod sharding;
pub(crate) mod slice;
pub(crate) mod sort;
pub(crate) mod tangent;
