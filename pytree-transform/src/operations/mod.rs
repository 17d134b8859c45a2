//! What users do with tensors; everything here is written in primitives.

mod arithmetic;
pub mod indexing;
mod padding;
mod products;
mod reduce;
mod shape;
