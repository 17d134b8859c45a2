//! Trees as values: functions on trees, filters that select leaves, and the selected parts of trees.

pub(crate) mod containers;
pub(crate) mod convert;
pub(crate) mod dynamic;
pub mod filter;
pub(crate) mod functions;
pub mod graph;
pub(crate) mod mixed;
pub mod partition;
mod prefix;
pub(crate) mod select_part;
pub(crate) mod shapes;
pub mod tree;
