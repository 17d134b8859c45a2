//! Fused kernels: programs of several steps that run tile by tile over arrays.

mod kernel;
mod places;
mod steps;
mod tiles;

pub use self::kernel::{Followed, Kernel, KernelBuilder};
pub use self::places::OperandPlace;
pub use self::steps::{Level, held_as};
