//! Arrays on the host, and what all kernels use: dtypes, numeric functions, memory, threads and the order of sums.

pub mod array;
pub mod bits;
pub mod divided;
pub mod dtype;
pub mod elementary;
pub mod fold;
pub mod instructions;
pub mod memory;
pub mod narrow;
pub mod numbers;
pub mod prefetch;
pub mod shape;
pub mod special;
pub mod target;
pub mod threads;
