//! What users do with tensors; everything here is written in primitives.

mod arithmetic;
pub(crate) mod collectives;
mod functions;
pub mod indexing;
mod moments;
mod padding;
mod pairs;
mod products;
mod reduce;
mod shape;
