//! The layer below tensors: arrays on the host, dtypes, errors, numeric functions, memory and threads.

pub(crate) mod array;
pub(crate) mod axis_names;
pub(crate) mod bits;
pub(crate) mod device_error;
pub(crate) mod dtype;
pub(crate) mod elementary;
pub(crate) mod error;
pub(crate) mod fold;
pub(crate) mod instructions;
pub mod memory;
pub(crate) mod mesh_axes;
pub(crate) mod narrow;
pub(crate) mod nested;
pub(crate) mod numbers;
pub(crate) mod prefetch;
pub(crate) mod shape;
pub(crate) mod special;
pub(crate) mod sync;
pub(crate) mod target;
pub(crate) mod text_layout;
pub(crate) mod threads;
pub(crate) mod warning;
