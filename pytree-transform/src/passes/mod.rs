//! Compiler passes, which rewrite a jaxpr without changing a bit of its results.
//!
//! The passes run once, before a jaxpr is scheduled for execution. Differentiation and batching use the recorded jaxpr.
//! Each pass is a function from jaxpr to jaxpr. A pass may leave unused equations, and the last pass removes them.
//!
//! An equation with an effect is neither removed nor merged, nor moved before another equation with an effect.

mod common_subexpressions;
mod concatenated_slices;
mod constant_folding;
mod constraints;
mod forwarded;
mod host;
mod joined_parts;
mod joined_sums;
mod loop_constants;
mod only_evaluated;
mod pipeline;
mod quantized_dot;
mod quantized_weights;
mod replacements;
mod rows;
mod simplify;
mod sunk_weights;
#[cfg(test)]
mod tests;
mod unused_results;

pub(crate) use self::host::optimize_for_host;
pub(crate) use self::joined_sums::joined_sums;
pub use self::pipeline::each_pass;
pub(crate) use self::pipeline::optimize;
