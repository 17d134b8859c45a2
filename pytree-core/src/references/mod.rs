//! Shared nodes and mutable references, and how they cross the boundary of a transformation.

pub(crate) mod boundary;
pub mod level;
pub(crate) mod reference;
pub(crate) mod shared;
mod unflatten;
