//! Trees as values: functions on trees, parts of trees, and filters that select them.

pub(crate) mod containers;
pub(crate) mod dynamic;
pub mod filter;
pub(crate) mod functions;
pub mod graph;
pub mod partition;
mod prefix;
pub(crate) mod select_part;
pub mod tree;
