//! Trees as values: the functions on them, their parts and what selects these.

pub(crate) mod containers;
pub(crate) mod dynamic;
pub mod filter;
pub(crate) mod functions;
pub mod graph;
pub mod partition;
mod prefix;
pub(crate) mod select_part;
pub mod tree;
