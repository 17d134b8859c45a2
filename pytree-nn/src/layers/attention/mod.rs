//! Attention, the layers of transformers, and the cache for decoding.
//!
//! `dot_product.rs` computes attention, and `multi_head.rs` adds the projections. Each product returns its axes in the
//! order that the next product reads, so no tensor is transposed between the input projections and the output
//! projection.

mod blocks;
mod cache;
mod decoding;
mod dot_product;
mod masks;
mod multi_head;
mod options;
mod positions;
mod projections;
mod rotary;
mod scores;
mod transformer_block;

pub use self::{
    cache::*, decoding::*, dot_product::*, masks::*, multi_head::*, options::*, positions::*,
    projections::*, rotary::*, transformer_block::*,
};
