//! Fused kernels: programs of several steps that run tile by tile over arrays.

mod kernel;
mod tiles;

pub use self::kernel::{Followed, Kernel, KernelBuilder, Level, OperandPlace, held_as};
