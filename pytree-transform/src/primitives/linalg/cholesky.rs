//! The Cholesky factor of a positive definite matrix.

use std::fmt;

use super::lowering;
use super::matrices::{
    adjoint, check_real, each_matrix, identity, part, product, square_length, with_real,
};
use super::matrix_kernels as kernels;
use super::triangular_solve::{Side, Triangle, TriangularSolve};
use crate::base::array::Array;
use crate::base::dtype::AbstractArray;
use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::move_axis;
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, not_linear, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Returns the lower triangular matrix `L` of `A = L Lᵀ`. Reads only the lower triangle of `A`. The elements above the
/// diagonal are zeros. If `A` is not positive definite or has NaN, the lower triangle is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cholesky;

/// Applies [`Cholesky`] to a tensor.
#[track_caller]
pub(crate) fn cholesky(operand: &Tensor) -> Result<Tensor, TensorError> {
    bind_one(&Cholesky, &[operand])
}

const OPERATION: &str = "factorize";

impl Primitive for Cholesky {
    fn name(&self) -> &'static str {
        "cholesky"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        check_real(OPERATION, operands)?;
        square_length(OPERATION, operands[0])?;
        Ok(one(operands[0].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let size = operand.shape()[operand.shape().len() - 1];
        one(
            with_real!(operand.dtype(), T => each_matrix::<T>(&operand, &[size, size], |matrix, target| {
                target.copy_from_slice(matrix);
                let is_definite = kernels::cholesky(target, size, size);
                for (row, line) in target.chunks_exact_mut(size).enumerate() {
                    let (lower, upper) = line.split_at_mut(row + 1);
                    upper.fill(0.0);
                    if !is_definite {
                        lower.fill(T::NAN);
                    }
                }
            })),
        )
    }

    /// With the symmetric tangent `A'`: `L' = L φ(L⁻¹ A' L⁻ᵀ)`, where φ takes the lower triangle and halves the diagonal
    /// (Murray, "Differentiation of the Cholesky decomposition", 2016, equation 8).
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let factor = or_panic(cholesky(&primals[0]));
        let tangent = tangents[0].as_ref().map(|tangent| {
            // Only the lower triangle is an operand, and it stands for both triangles.
            let symmetric = part(tangent, Comparison::Le) + adjoint(&part(tangent, Comparison::Lt));
            let lower = TriangularSolve::new(Triangle::Lower);
            let right = lower.transposed().on_side(Side::Right);
            let inner = lower.apply(&factor, &right.apply(&factor, &symmetric));
            let halved = part(&inner, Comparison::Le) / (identity(&inner) + 1.0);
            // If the factor is NaN, then so is the product, also above the diagonal.
            part(&product(&factor, &halved), Comparison::Le)
        });
        (one(factor), one(tangent))
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(axis) = axes[0] else {
            return alone(self, operands);
        };
        let operand = or_panic(move_axis(&operands[0], axis, 0));
        (one(or_panic(cholesky(&operand))), one(Some(0)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        let operand = &operands[0];
        if operand.info.is_empty() {
            return Ok(one(operand.clone()));
        }
        let attributes = format_args!("lower = true");
        let result = operand.info.clone();
        let factor = block.operation("stablehlo.cholesky", &[operand], attributes, result);
        // StableHLO does not define the elements above the diagonal.
        Ok(one(lowering::part(block, &factor, "LE")))
    }

    fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
