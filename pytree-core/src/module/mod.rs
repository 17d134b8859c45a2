//! Modules: the kinds of fields, frozen parameters, fields registered at run time.

pub(crate) mod annotated;
pub mod axes;
pub mod dynamic_module;
pub mod field;
pub mod freeze;
pub mod object;
pub(crate) mod registry;
