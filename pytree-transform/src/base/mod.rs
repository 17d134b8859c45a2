//! The layer below tensors: errors, warnings, the names of batch axes, nested arrays of numbers, and the layout of text.

pub(crate) mod axis_names;
pub(crate) mod device_error;
pub(crate) mod error;
pub(crate) mod nested;
pub(crate) mod sync;
pub(crate) mod text_layout;
pub(crate) mod warning;
