//! The LU decomposition of square matrices with exchanges of rows.

use std::fmt;

use smallvec::smallvec;

use super::lowering;
use super::matrices::{
    check_real, each_matrix, identity, part, permuted_rows, product, square_length, with_real,
};
use super::matrix_kernels as kernels;
use super::triangular_solve::{Side, Triangle, TriangularSolve};
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::{check_positions, move_axis};
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, not_linear, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind;

/// Returns the factors of a square matrix `A`, the pivots and the permutation of the rows, like `jax.lax.linalg.lu`:
/// row `i` of `L U` is row `permutation[i]` of `A`. `L` and `U` share one matrix: `L` is below the diagonal, and its
/// diagonal of ones is not stored. Step `i` exchanged row `i` with row `pivots[i]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lu;

/// The results of [`lu`].
pub(crate) struct Factors {
    /// `[…, n, n]`.
    pub(crate) packed: Tensor,
    /// `i32[…, n]`.
    pub(crate) pivots: Tensor,
    /// `i32[…, n]`.
    pub(crate) permutation: Tensor,
}

/// Applies [`Lu`] to a tensor.
#[track_caller]
pub(crate) fn lu(operand: &Tensor) -> Result<Factors, TensorError> {
    let results = bind(&Lu, &[operand])?;
    let [packed, pivots, permutation] = &results[..] else {
        pytree_core::bug::bug("three results of a decomposition")
    };
    Ok(Factors {
        packed: packed.clone(),
        pivots: pivots.clone(),
        permutation: permutation.clone(),
    })
}

const OPERATION: &str = "factorize";

/// Returns the dtype and shape of the pivots of an array of square matrices.
pub(super) fn positions(operand: &AbstractArray) -> AbstractArray {
    let shape = operand.shape[..operand.rank() - 1].iter().copied();
    AbstractArray {
        dtype: DType::I32,
        shape: shape.collect(),
    }
}

impl Lu {
    fn evaluate_as<T: kernels::Real>(operand: &Array) -> [Array; 3] {
        let info = positions(&operand.info);
        let size = operand.shape()[operand.shape().len() - 1];
        let mut permutations = vec![0_i32; info.len()];
        let mut rows = permutations.chunks_exact_mut(size.max(1));
        let mut pivots = Vec::with_capacity(info.len());
        let packed = each_matrix::<T>(operand, &[size, size], |matrix, target| {
            target.copy_from_slice(matrix);
            let permutation = rows.next().unwrap_or_default();
            kernels::lu(target, size, permutation);
            pivots.extend(kernels::pivots(permutation));
        });
        [
            packed,
            Array::new(&info.shape, pivots),
            Array::new(&info.shape, permutations),
        ]
    }
}

impl Primitive for Lu {
    fn name(&self) -> &'static str {
        "lu"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operand = operands[0];
        check_real(OPERATION, operands)?;
        square_length(OPERATION, operand)?;
        check_positions(OPERATION, operand, operand.rank() - 1)?;
        let positions = positions(operand);
        Ok(smallvec![operand.clone(), positions.clone(), positions])
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        with_real!(operand.dtype(), T => Self::evaluate_as::<T>(&operand))
            .into_iter()
            .collect()
    }

    /// With `M = L⁻¹ A' U⁻¹`, where the rows of `A'` are permuted: `L' = L tril(M, -1)` and `U' = triu(M) U` (de Hoog,
    /// Anderssen and Lukas, "Differentiation of matrix functionals using triangular factorization", 2011).
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let Factors {
            packed,
            pivots,
            permutation,
        } = or_panic(lu(&primals[0]));
        let tangent = tangents[0].as_ref().map(|tangent| {
            let lower = TriangularSolve::new(Triangle::Lower).with_unit_diagonal();
            let upper = TriangularSolve::new(Triangle::Upper).on_side(Side::Right);
            let middle = lower.apply(&packed, &permuted_rows(tangent, &permutation));
            let middle = upper.apply(&packed, &middle);
            let lower = part(&packed, Comparison::Lt) + identity(&packed);
            let upper = part(&packed, Comparison::Ge);
            product(&lower, &part(&middle, Comparison::Lt))
                + product(&part(&middle, Comparison::Ge), &upper)
        });
        (
            smallvec![packed, pivots, permutation],
            smallvec![tangent, None, None],
        )
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(axis) = axes[0] else {
            return alone(self, operands);
        };
        let operand = or_panic(move_axis(&operands[0], axis, 0));
        let results = or_panic(bind(self, &[&operand]));
        (results, smallvec![Some(0), Some(0), Some(0)])
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        lowering::lu(block, &operands[0]).map(Outputs::from_vec)
    }

    fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
