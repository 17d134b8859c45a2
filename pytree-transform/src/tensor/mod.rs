//! Tensors, traces, the trait of primitives, and recorded functions.

pub(crate) mod bytes;
pub(crate) mod checks;
pub(crate) mod device;
mod display;
pub(crate) mod evaluation;
mod handle;
pub(crate) mod jaxpr;
pub(crate) mod linear_primitive;
mod nested;
pub(crate) mod primitive;
pub(crate) mod scalar;
pub(crate) mod stablehlo;
pub(crate) mod stage;
pub(crate) mod trace;
pub(crate) mod traceable;

pub use self::handle::Tensor;
