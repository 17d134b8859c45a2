//! The loops that compute, and the arrays, the memory and the threads that they use. Arrays go in, and arrays come out.
//!
//! A primitive of `pytree-transform` has its rules there and calls a kernel of this crate with arrays and plain numbers.

#![allow(
    clippy::inline_always,
    clippy::needless_range_loop,
    clippy::manual_memcpy,
    reason = "only inlined code is compiled for the wide instruction sets, and methods of iterators and slices are not always inlined"
)]

// `with_type!` calls it.
#[doc(hidden)]
pub use pytree_base::for_each_dtype;

pub mod base;
pub mod fused;
pub mod loops;
