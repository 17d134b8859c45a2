//! Operations on whole models: differences, edits, selections, walks over nodes.

#[cfg(feature = "ndarray")]
pub mod arrays;
pub(crate) mod diff;
pub mod edit;
pub mod lint;
pub mod nodes;
#[cfg(feature = "ndarray")]
pub mod ravel;
pub mod select;
