//! Elementwise primitives: unary operations, binary operations and comparisons.
//!
//! The operands of a primitive have the same shape and dtype. Another primitive broadcasts operands first if necessary.
//! The scalar function of an operation is written once, in `pytree-kernels`, for eager evaluation and for fused kernels.

mod binary;
mod broadcasting;
mod cody;
mod comparison;
mod lowering;
pub(crate) mod operators;
mod unary;

pub(crate) use binary::{binary, sum_of};
pub(crate) use broadcasting::{align_batch, aligned_axis, broadcast_together};
pub(crate) use comparison::{compare, compare_with};
pub(crate) use lowering::log_add_exp;
use pytree_kernels::base::dtype::AbstractArray;
pub(crate) use unary::unary;

use crate::base::error::TensorError;

/// Returns an error unless the operands have the same dtype and shape.
pub(crate) fn same_info(
    operation: &'static str,
    operands: &[&AbstractArray],
) -> Result<(), TensorError> {
    if operands
        .windows(2)
        .any(|pair| pair[0].dtype != pair[1].dtype)
    {
        return Err(TensorError::dtype(
            operation,
            operands,
            "the same element type in all tensors",
        ));
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

#[cfg(test)]
mod tests {
    use pytree_kernels::loops::elementwise::{Binary, Unary};

    use super::{binary, unary};
    use crate::tensor::Tensor;

    #[test]
    fn errors_suggest_fix_for_dtype() {
        let bools = Tensor::from([true]);
        let (integers, floats) = (Tensor::from([1]), Tensor::from([1.0]));
        let of_pair = |operation, left: &Tensor, right: &Tensor| {
            let error = binary(operation, left, right).unwrap_err();
            error.to_string()
        };
        let of_one = |operation, operand: &Tensor| {
            let error = unary(operation, operand).unwrap_err();
            error.to_string()
        };
        for (error, remedy) in [
            (
                of_pair(Binary::Atan2, &integers, &integers),
                "convert the tensors, for instance with `.convert(DType::F32)`",
            ),
            (
                of_pair(Binary::Add, &bools, &bools),
                "convert the tensors, for instance with `.convert(DType::I32)`",
            ),
            (
                of_pair(Binary::Add, &floats, &integers),
                "convert the other tensor, for instance with `.convert(DType::F64)`",
            ),
            (
                of_pair(Binary::And, &floats, &floats),
                "compare with a number first, which returns bools",
            ),
            (
                of_one(Unary::Neg, &bools),
                "convert the tensor, for instance with `.convert(DType::I32)`",
            ),
            (
                of_one(Unary::IntegerPower(-1), &integers),
                "cannot take a power below 0 of i32[1]: expected a float dtype; convert the tensor, for instance with \
                 `.convert(DType::F32)`",
            ),
        ] {
            assert!(error.ends_with(remedy), "{error}");
        }
        let error = floats.try_select(&floats, &floats).unwrap_err().to_string();
        assert!(error.ends_with("for instance `.not_equal(0)`"), "{error}");
    }
}
