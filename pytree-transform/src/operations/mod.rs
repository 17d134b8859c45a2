//! What users do with tensors; everything here is written in primitives.

mod arithmetic;
mod functions;
pub(crate) mod collectives;
pub mod indexing;
mod moments;
mod padding;
mod pairs;
mod products;
mod reduce;
mod shape;
