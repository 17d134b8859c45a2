//! The data of a tree's nodes besides their children: leaves, static values, shapes.

pub(crate) mod compare;
pub(crate) mod insertion;
pub mod leaf;
pub mod shape;
pub mod statics;
