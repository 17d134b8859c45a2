//! Elementwise operations, on whole arrays and on the tiles of fused kernels.
//!
//! The scalar function of an operation is written once, in `functions.rs`.

pub(crate) mod blocks;
pub(crate) mod classes;
pub(crate) mod functions;
mod operations;
mod whole;

pub use self::operations::{Binary, Comparison, Elementwise, Rounding, Unary};
pub use self::whole::{binary, compare, converted, select, unary};
pub(crate) use self::whole::{binary_loop, compare_loop, conversion_loop, select_loop, unary_loop};
