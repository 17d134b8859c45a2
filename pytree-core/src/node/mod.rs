//! The data of the nodes of a tree: leaves, static values and shapes.

pub(crate) mod compare;
pub(crate) mod insertion;
pub mod leaf;
pub mod shape;
pub mod statics;
