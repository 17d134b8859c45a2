//! What a node of a tree has besides its children: leaves, static values, shapes.

pub(crate) mod compare;
pub(crate) mod insertion;
pub mod leaf;
pub mod shape;
pub mod statics;
