//! The layer below tensors: arrays on the host, dtypes, errors, numeric functions, memory and threads.

pub(crate) mod axis_names;
pub(crate) mod device_error;
pub(crate) mod error;
pub(crate) mod nested;
pub(crate) mod sync;
pub(crate) mod text_layout;
pub(crate) mod warning;
