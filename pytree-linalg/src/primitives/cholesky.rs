//! The Cholesky factor of a positive definite matrix.

use pytree_transform::extend::{Block, Examples, Primitive, Tangents, Value, apply, try_apply};
use pytree_transform::{AbstractArray, Tensor, TensorError};

use crate::kernels::triangles as kernels;
use crate::primitives::matrices::{
    Infos, Lowered, MatrixPart, adjoint, batch_of_one, check_real, each_matrix, identity, part,
    product, square_length, with_real,
};
use crate::primitives::triangular_solve::{Side, Triangle, TriangularSolve};

/// Returns the lower triangular matrix `L` of `A = L Lᵀ`. Reads only one triangle of `A`, which is symmetric. The elements
/// above the diagonal are zeros. If `A` is not positive definite or has NaN, the lower triangle is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cholesky;

/// Applies [`Cholesky`] to a tensor.
#[track_caller]
pub(crate) fn cholesky(operand: &Tensor) -> Result<Tensor, TensorError> {
    Ok(try_apply(&Cholesky, &[operand])?.remove(0))
}

const OPERATION: &str = "factorize";

impl Primitive for Cholesky {
    fn name(&self) -> &'static str {
        "cholesky"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        check_real(OPERATION, operands)?;
        square_length(OPERATION, operands[0])?;
        Ok(vec![operands[0].clone()])
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let operand = &operands[0];
        let size = operand.shape()[operand.rank() - 1];
        vec![with_real!(operand.dtype(), T => {
            let mut memory = kernels::memory_for_cholesky::<T>(size);
            each_matrix::<T>(operand, &[size, size], |matrix, target| {
                target.copy_from_slice(matrix);
                kernels::cholesky(target, size, &mut memory);
            })
        })]
    }

    /// With the symmetric tangent `A'`: `L' = L φ(L⁻¹ A' L⁻ᵀ)`, where φ takes the lower triangle and halves the diagonal
    /// (Murray, "Differentiation of the Cholesky decomposition", 2016, equation 8).
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let factor = apply(self, &[&primals[0]]).remove(0);
        let tangent = tangents[0].as_ref().map(|tangent| {
            // Only the lower triangle is an operand, and it stands for both triangles.
            let symmetric = part(tangent, MatrixPart::Lower)
                + adjoint(&part(tangent, MatrixPart::BelowDiagonal));
            let lower = TriangularSolve::new(Triangle::Lower);
            let right = lower.transposed().on_side(Side::Right);
            let inner = lower.apply(&factor, &right.apply(&factor, &symmetric));
            let halved = part(&inner, MatrixPart::Lower) / (identity(&inner) + 1.0);
            // If the factor is NaN, then so is the product, also above the diagonal.
            part(&product(&factor, &halved), MatrixPart::Lower)
        });
        (vec![factor], vec![tangent])
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        batch_of_one(self, operands, axes)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        let attributes = format_args!("lower = true");
        let result = results[0].clone();
        let factor = block.operation("stablehlo.cholesky", &[&operands[0]], attributes, result);
        // StableHLO does not define the elements above the diagonal.
        block.computed(&[factor], |factor| {
            vec![part(&factor[0], MatrixPart::Lower)]
        })
    }
}
