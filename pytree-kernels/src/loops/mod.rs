//! The kernels of primitives: functions of arrays and plain numbers. A primitive of `pytree-transform` checks its operands
//! before it calls its kernel.

pub mod arena;
pub mod concatenate;
pub mod convolution;
pub mod create;
pub mod cumulative;
pub mod dot;
pub mod elementwise;
pub mod gather;
pub mod pad;
pub mod reduce_window;
pub mod reduction;
pub mod sliding;
pub mod sort;
pub mod strided;
pub mod threefry;
pub mod update_slice;
