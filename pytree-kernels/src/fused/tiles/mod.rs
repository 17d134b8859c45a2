//! The registers of a kernel: tiles of elements that stay in the first-level cache.
//!
//! A step of the program is interpreted by code that is compiled once, and runs a leaf loop on the elements of the tile.

pub(super) mod elementwise;
mod register;
pub(super) mod registers;
pub(super) mod totals;
