//! Shared nodes, mutable references, and their way across the boundary of a transformation.

pub mod boundary;
pub mod level;
pub(crate) mod reference;
pub(crate) mod shared;
mod unflatten;
