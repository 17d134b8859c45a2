//! The public operations on tensors. Each operation is composed of primitives.

pub(crate) mod axes;
pub(crate) mod collectives;
pub mod convolution;
mod convolution_layout;
mod creation;
pub(crate) mod cumulative;
pub(crate) mod debug;
mod diagonals;
mod dynamic;
pub(crate) mod einsum;
mod einsum_letters;
mod extrema;
mod functions;
pub(crate) mod host;
pub mod indexing;
mod logic;
mod masked;
mod moments;
mod norms;
pub mod padding;
mod pairs;
pub mod pooling;
mod process_data;
mod products;
pub(crate) mod ravel;
mod reduce;
mod repeats;
pub(crate) mod reshape;
mod segments;
mod shape;
mod sorting;
pub(crate) mod stack;
mod tensor_products;
pub mod update;
mod window_padding;

pub(crate) use self::reduce::check_float;
