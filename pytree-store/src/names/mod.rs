//! The names and layouts of leaves in files: those of this library and of other libraries.

pub(crate) mod arrangement;
pub(crate) mod layers;
pub(crate) mod leaves;
mod pattern;
pub(crate) mod weight_names;
