//! The LU decomposition of square matrices with exchanges of rows.

use pytree_transform::extend::{Block, Examples, Primitive, Tangents, Value, apply, try_apply};
use pytree_transform::{AbstractArray, DType, Tensor, TensorError};

use crate::kernels::memory::filled;
use crate::kernels::real::Real;
use crate::kernels::triangles as kernels;
use crate::primitives::lowering;
use crate::primitives::matrices::{
    Infos, Lowered, MatrixPart, batch_of_one, check_real, each_matrix, identity, part,
    permuted_rows, product, square_length, with_real,
};
use crate::primitives::triangular_solve::{Side, Triangle, TriangularSolve};

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
    let results = try_apply(&Lu, &[operand])?;
    Ok(Factors::of(&results))
}

impl Factors {
    /// Takes the factors from the results of [`Lu`].
    pub(super) fn of(results: &[Tensor]) -> Self {
        let [packed, pivots, permutation] = [0, 1, 2].map(|place| results[place].clone());
        Self {
            packed,
            pivots,
            permutation,
        }
    }
}

const OPERATION: &str = "factorize";

/// Returns the dtype and shape of the pivots of an array of square matrices.
pub(super) fn positions(operand: &AbstractArray) -> AbstractArray {
    AbstractArray::new(DType::I32, &operand.shape[..operand.rank() - 1])
}

/// Returns an error if an i32 cannot hold the positions of rows.
fn check_positions(operand: &AbstractArray) -> Result<(), TensorError> {
    let axis = operand.rank() - 1;
    let last = operand.shape[axis].saturating_sub(1);
    if operand.is_empty() || i32::try_from(last).is_ok() {
        return Ok(());
    }
    Err(TensorError::shape(
        OPERATION,
        &[operand],
        format!("the position {last} of axis {axis} does not fit i32, the type of the result"),
        "split the axis into shorter axes with `.reshape(…)`",
    ))
}

impl Lu {
    fn evaluate_as<T: Real>(operand: &Tensor) -> Vec<Tensor> {
        let info = positions(operand.info());
        let size = operand.shape()[operand.rank() - 1];
        let mut permutations = filled(0_i32, info.len());
        let mut rows = permutations.chunks_exact_mut(size.max(1));
        let mut pivots = Vec::with_capacity(info.len());
        let packed = each_matrix::<T>(operand, &[size, size], |matrix, target| {
            target.copy_from_slice(matrix);
            let permutation = rows.next().unwrap_or_default();
            kernels::lu(target, size, permutation);
            pivots.extend(kernels::pivots(permutation));
        });
        vec![
            packed,
            Tensor::new(&info.shape[..], pivots),
            Tensor::new(&info.shape[..], permutations),
        ]
    }
}

impl Primitive for Lu {
    fn name(&self) -> &'static str {
        "lu"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        let operand = operands[0];
        check_real(OPERATION, operands)?;
        square_length(OPERATION, operand)?;
        check_positions(operand)?;
        let positions = positions(operand);
        Ok(vec![operand.clone(), positions.clone(), positions])
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        with_real!(operands[0].dtype(), T => Self::evaluate_as::<T>(&operands[0]))
    }

    /// With `M = L⁻¹ A' U⁻¹`, where the rows of `A'` are permuted: `L' = L tril(M, -1)` and `U' = triu(M) U` (de Hoog,
    /// Anderssen and Lukas, "Differentiation of matrix functionals using triangular factorization", 2011).
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let Factors {
            packed,
            pivots,
            permutation,
        } = Factors::of(&apply(self, &[&primals[0]]));
        let tangent = tangents[0].as_ref().map(|tangent| {
            let lower = TriangularSolve::new(Triangle::Lower).with_unit_diagonal();
            let upper = TriangularSolve::new(Triangle::Upper).on_side(Side::Right);
            let middle = lower.apply(&packed, &permuted_rows(tangent, &permutation));
            let middle = upper.apply(&packed, &middle);
            let lower = part(&packed, MatrixPart::BelowDiagonal) + identity(&packed);
            let upper = part(&packed, MatrixPart::Upper);
            product(&lower, &part(&middle, MatrixPart::BelowDiagonal))
                + product(&part(&middle, MatrixPart::Upper), &upper)
        });
        (vec![packed, pivots, permutation], vec![tangent, None, None])
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        batch_of_one(self, operands, axes)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        block.computed(operands, |operands| lowering::lu(&operands[0]))
    }
}
