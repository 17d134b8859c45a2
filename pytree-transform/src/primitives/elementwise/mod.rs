//! Elementwise primitives: unary operations, binary operations and comparisons.
//!
//! The operands of a primitive have the same shape and dtype. Another primitive broadcasts operands first if necessary.
//! The scalar function of an operation is written once, in `pytree-kernels`, for eager evaluation and for fused kernels.

mod binary;
mod broadcasting;
mod cody;
mod comparison;
mod lowering;
pub(crate) mod operand;
mod operators;
#[cfg(test)]
mod tests;
mod unary;

pub(crate) use binary::{binary, sum_of};
pub(crate) use broadcasting::{align_batch, aligned_axis, broadcast_together, same_info};
pub(crate) use comparison::{compare, compare_with};
pub(crate) use lowering::log_add_exp;
pub(crate) use unary::unary;
