//! The kernels of primitives: functions of arrays and plain numbers. A primitive of `pytree-transform` checks its operands
//! before it calls its kernel.

pub mod convolution;
pub mod dot;
pub mod elementwise;
pub mod sliding;
pub mod strided;
