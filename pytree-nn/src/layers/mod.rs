//! Layers, one family per file.
//!
//! A layer is an ordinary module: a struct with a function `new`, which draws random keys from [`Rngs`](crate::Rngs),
//! and a method `forward`.

mod activation;
mod dropout;
mod embed;
mod identity;
mod linear;
mod mlp;
mod mode;
mod normalization;

pub use activation::Activation;
pub use dropout::Dropout;
pub use embed::{Embed, EmbedOptions};
pub use identity::Identity;
pub use linear::{Linear, LinearOptions};
pub use mlp::Mlp;
pub use mode::{Mode, eval, eval_where, train, train_where};
pub use normalization::{BatchNorm, GroupNorm, LayerNorm, NormOptions, RmsNorm, VarianceFormula};
