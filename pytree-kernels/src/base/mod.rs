//! Arrays on the host, and what all kernels use: dtypes, numeric functions, memory, threads and the order of sums.

pub mod array;
pub mod bits;
pub(crate) mod combine;
pub mod data;
pub mod divided;
pub mod dtype;
pub(crate) mod elementary;
pub(crate) mod fma;
pub mod fold;
pub(crate) mod instructions;
pub mod memory;
pub mod narrow;
pub(crate) mod numbers;
pub mod pattern;
pub(crate) mod power;
pub(crate) mod prefetch;
pub(crate) mod rare;
pub mod shape;
pub mod special;
pub(crate) mod target;
pub mod threads;
pub(crate) mod trigonometric;
