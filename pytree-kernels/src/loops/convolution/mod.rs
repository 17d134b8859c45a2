//! Convolutions: products of sliding windows of an input with a kernel.

mod depthwise;
mod evaluation;
mod geometry;
mod packed;
mod phases;
mod problem;
mod rows;
mod single_product;

pub use self::evaluation::evaluate;
pub(crate) use self::evaluation::{Plan, nanoseconds};
pub use self::geometry::{Axes, Convolution, DimensionNumbers};
