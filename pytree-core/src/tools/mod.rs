//! Operations on whole models: differences, edits, selections, walks over nodes.

pub mod arrays;
pub(crate) mod diff;
pub mod edit;
pub mod lint;
pub mod nodes;
pub mod ravel;
pub mod select;
