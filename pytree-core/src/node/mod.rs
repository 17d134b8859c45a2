//! The data of the nodes of a tree: leaves, static values and shapes, and the named axes
//! of arrays.

pub(crate) mod axes;
pub(crate) mod compare;
pub(crate) mod insertion;
pub mod leaf;
pub mod shape;
pub mod statics;
