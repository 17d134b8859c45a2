//! Layers, one family per file.
//!
//! A layer is an ordinary module: a struct with a function `new`, which draws random keys from [`Rngs`](crate::Rngs),
//! and a method `forward`.

mod activation;
mod attention;
mod convolution;
mod dropout;
mod einsum;
mod embed;
mod flatten;
mod forward;
mod gated_mlp;
mod identity;
mod linear;
mod linear_general;
mod lora;
mod matrix_layout;
mod mlp;
mod mode;
mod normalization;
mod pooling;
mod prelu;
mod prelude;
mod quantized;
mod recurrent;
mod rewriting;
mod sequential;
mod spectral_norm;
mod weight_norm;

pub use self::{
    activation::*, attention::*, convolution::*, dropout::*, einsum::*, embed::*, flatten::*,
    forward::*, gated_mlp::*, identity::*, linear::*, linear_general::*, lora::*, matrix_layout::*,
    mlp::*, mode::*, normalization::*, pooling::*, prelu::*, quantized::*, recurrent::*,
    rewriting::*, sequential::*, spectral_norm::*, weight_norm::*,
};

pub(crate) use matrix_layout::roles_of;
