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
mod recurrent;
mod rewriting;
mod sequential;
mod spectral_norm;
mod weight_norm;

pub use activation::Activation;
pub use attention::{
    AttentionDirection, AttentionOptions, DropoutMask, HeadNorm, HeadProjection, KeyValueCache,
    LearnedPositions, MultiHeadAttention, MultiHeadAttentionOptions, NormOrder, OutputProjection,
    RotaryScaling, SinusoidalPositions, TransformerBlock, TransformerBlockOptions, causal_mask,
    combine_masks, dot_product_attention, padding_mask, rotary, sinusoidal_positions,
    try_dot_product_attention, try_rotary, window_mask, with_cache,
};
pub use convolution::{
    Conv, ConvOptions, ConvPadding, ConvTranspose, ConvTransposeOptions, PerAxis,
};
pub use dropout::Dropout;
pub use einsum::{Einsum, EinsumOptions};
pub use embed::{Embed, EmbedOptions};
pub use flatten::{Flatten, Lambda};
pub use forward::Forward;
pub use identity::Identity;
pub use linear::{Linear, LinearOptions};
pub use linear_general::{LinearGeneral, LinearGeneralOptions};
pub use lora::{Lora, LoraAdapter, LoraParam};
pub use matrix_layout::MatrixLayout;
pub(crate) use matrix_layout::roles_of;
pub use mlp::Mlp;
pub use mode::{Mode, eval, eval_where, train, train_where};
pub use normalization::{
    BatchNorm, GroupNorm, InstanceNorm, LayerNorm, NormOptions, RmsNorm, VarianceFormula,
};
pub use pooling::{Pool, Reduction, avg_pool, max_pool, min_pool};
pub use prelu::PRelu;
pub use recurrent::{
    Bidirectional, CellOptions, GruCell, LstmCell, RecurrentCell, Rnn, SimpleCell,
};
pub use rewriting::WrapError;
pub use sequential::Sequential;
pub use spectral_norm::{SpectralNorm, SpectralState};
pub use weight_norm::{WeightNorm, WeightScale};
