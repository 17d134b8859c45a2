//! Attention, the layers of transformers, and the cache for decoding.
//!
//! `dot_product.rs` computes attention, and `multi_head.rs` adds the projections. Each product returns its axes in the
//! order that the next product reads, so no tensor is transposed between the input projections and the output
//! projection.

mod cache;
mod dot_product;
mod masks;
mod multi_head;
mod options;
mod positions;
mod projections;
mod rotary;
mod scores;
mod transformer_block;

pub use cache::{KeyValueCache, with_cache};
pub use dot_product::{AttentionOptions, dot_product_attention, try_dot_product_attention};
pub use masks::{causal_mask, combine_masks, padding_mask, window_mask};
pub use multi_head::{HeadNorm, MultiHeadAttention};
pub use options::{AttentionDirection, DropoutMask, MultiHeadAttentionOptions};
pub use positions::{LearnedPositions, SinusoidalPositions, sinusoidal_positions};
pub use projections::{HeadProjection, OutputProjection};
pub use rotary::{RotaryScaling, rotary, try_rotary};
pub use transformer_block::{NormOrder, TransformerBlock, TransformerBlockOptions};
