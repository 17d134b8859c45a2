//! Layers, one family a file.
//!
//! A layer is a module like any other: a struct with `new`, which draws from [`Rngs`](crate::Rngs), and
//! `forward`.

mod activation;
mod dropout;
mod identity;
mod linear;
mod mlp;
mod mode;

pub use activation::Activation;
pub use dropout::Dropout;
pub use identity::Identity;
pub use linear::Linear;
pub use mlp::Mlp;
pub use mode::{Mode, eval, train};
