//! A fused kernel: a program of steps that runs tile by tile.
//!
//! A register is a buffer for one tile, small enough to stay in the first-level cache. Intermediate values stay in
//! registers and are never written to memory. A tile holds whole rows, so that one step can reduce each row to a
//! number, and later steps can read this number.
//!
//! Registers hold the types in which whole arrays are computed, too: half-precision floats are loaded into registers of f32, u32 into
//! registers of i64, and narrower integers into registers of i32. A step rounds or wraps each of its results to the narrower dtype.
//! So the results have the same bits as without the kernel. The floats of a kernel have one type, f32 or f64.

mod arithmetic;
mod builder;
mod choices;
mod direct;
mod followed;
mod following;
mod prepared;
mod program;
mod running;

pub use self::builder::KernelBuilder;
pub use self::followed::Followed;
pub use self::program::Kernel;
