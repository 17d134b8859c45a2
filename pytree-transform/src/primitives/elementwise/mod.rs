//! Operations element by element: unary, binary and comparisons.
//!
//! Operands have the same shape and element type; broadcasting is an operation of its own, done before.
//! What an operation does to numbers is written once, in `kernels.rs`, for evaluation and for fused passes.

mod binary;
mod broadcasting;
mod comparison;
mod kernels;
mod unary;

use crate::base::dtype::AbstractArray;
use crate::base::error::TensorError;
use crate::tensor::elementwise::Elementwise;
use crate::tensor::primitive::Primitive;

pub(crate) use binary::{binary, sum_of};
pub(crate) use broadcasting::{align_batch, aligned_axis, broadcast_shapes, broadcast_together};
pub(crate) use comparison::compare;
pub(crate) use kernels::{Kernels, Map, Zip};
pub(crate) use unary::unary;

impl Elementwise {
    /// Its name in jaxprs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unary(unary) => unary.name(),
            Self::Binary(binary) => binary.name(),
            Self::Compare(comparison) => comparison.name(),
            Self::Select => "select_n",
            Self::Convert(_) => "convert_element_type",
        }
    }
}

/// Fails if the operands are not of one element type and shape.
pub(crate) fn same_info(
    operation: &'static str,
    operands: &[&AbstractArray],
) -> Result<(), TensorError> {
    if operands
        .windows(2)
        .any(|pair| pair[0].dtype != pair[1].dtype)
    {
        return Err(TensorError::dtype(operation, operands, "one element type"));
    }
    if operands
        .windows(2)
        .any(|pair| pair[0].shape != pair[1].shape)
    {
        return Err(TensorError::shape(
            operation,
            operands,
            "the shapes differ",
            "broadcast them first",
        ));
    }
    Ok(())
}
