//! The determinant of square matrices.

use pytree_transform::extend::{Block, Examples, Primitive, Tangents, Value, apply, try_apply};
use pytree_transform::indexing::Index;
use pytree_transform::{AbstractArray, DType, Tensor, TensorError, ix};

use crate::kernels::memory::copied;
use crate::kernels::real::Real;
use crate::kernels::triangles as kernels;
use crate::primitives::lowering;
use crate::primitives::lu::{Factors, Lu};
use crate::primitives::matrices::{
    Infos, Lowered, MatrixPart, batch_of_one, check_real, count, diagonal, each_matrix, mask,
    parity_sign, permuted_rows, spread, square_length, with_lengths, with_real,
};
use crate::primitives::triangular_solve::{Triangle, TriangularSolve};

/// Returns the determinants of square matrices: `[…, n, n] → […]`. It is the product of the pivots of the LU
/// decomposition.
///
/// This is a primitive for its derivative, which is defined for singular matrices, too. The derivative of the product
/// of the pivots would divide by zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Determinant;

/// Applies [`Determinant`] to a tensor.
#[track_caller]
pub(crate) fn determinant(operand: &Tensor) -> Result<Tensor, TensorError> {
    Ok(try_apply(&Determinant, &[operand])?.remove(0))
}

const OPERATION: &str = "take the determinant of";

fn determinant_of<T: Real>(matrix: &[T], size: usize) -> T {
    let mut packed = copied(matrix);
    let mut permutation = vec![0; size];
    kernels::lu(&mut packed, size, &mut permutation);
    let product = packed
        .iter()
        .step_by(size + 1)
        .fold(T::ONE, |product, &pivot| product * pivot);
    let pivots = kernels::pivots(&permutation);
    let exchanges = pivots.iter().zip(0..).filter(|&(&pivot, row)| pivot != row);
    if exchanges.count() % 2 == 0 {
        product
    } else {
        -product
    }
}

/// Returns `value` where `keeps`, which has the shape of the batch axes, and zeros elsewhere.
fn kept(keeps: &Tensor, value: &Tensor) -> Tensor {
    spread(keeps, value.shape()).select(value, Tensor::zeros_like(value))
}

/// Returns the directional derivative of the determinant of matrices with two or three rows: the sum of the products of
/// the elements of the tangent and the cofactors. It is a polynomial, so its derivatives exist at singular matrices, too.
#[track_caller]
fn by_cofactors(matrix: &Tensor, tangent: &Tensor) -> Tensor {
    let turned = |rows: isize, columns: isize| matrix.roll(-rows, -2).roll(-columns, -1);
    let cofactors = if matrix.shape()[matrix.rank() - 1] == 2 {
        let minors = turned(1, 1);
        mask(matrix, MatrixPart::Diagonal).select(&minors, &-&minors)
    } else {
        turned(1, 1) * turned(2, 2) - turned(1, 2) * turned(2, 1)
    };
    (cofactors * tangent).sum_axes([-2, -1])
}

/// Returns the trace of `adj(A) B`, which is the directional derivative of the determinant (Jacobi's formula).
///
/// With `A = P L U`, the adjugate is `det(A) U⁻¹ L⁻¹ P⁻¹`. If `A` has the rank n - 1, the last pivot is zero. So this
/// function replaces the last pivot by the reciprocal of the product of the others, and multiplies all rows except the
/// last by the determinant. For a lower rank the adjugate is zero. This is `_cofactor_solve` of `jax.numpy.linalg`.
#[track_caller]
fn trace_of_adjugate(matrix: &Tensor, tangent: &Tensor) -> Tensor {
    let size = matrix.shape()[matrix.rank() - 1];
    let Factors {
        packed,
        pivots,
        permutation,
    } = Factors::of(&apply(&Lu, &[matrix]));
    let pivot_values = diagonal(&packed);
    let sign = parity_sign(&pivots, matrix.dtype());
    let whole = pivot_values.prod_axes(-1) * &sign;
    let of_others = pivot_values
        .index(ix![Index::Ellipsis, ..size - 1])
        .prod_axes(-1)
        * &sign;
    let is_last_row = Tensor::iota(DType::I32, matrix.shape(), -2).equal(count(size) - 1);
    let is_last = &is_last_row & mask(matrix, MatrixPart::Diagonal);
    let spread = |value: &Tensor| spread(value, matrix.shape());
    let packed = is_last.select(spread(&(1.0 / &of_others)), &packed);
    let upper = TriangularSolve::new(Triangle::Upper);
    let lower = TriangularSolve::new(Triangle::Lower).with_unit_diagonal();
    // The solution is finite exactly if no other pivot is zero.
    let trial = upper.apply(&packed, &Tensor::ones_like(&pivot_values).expand_dims(-1));
    let keeps = (trial * 0.0).equal(0.0).all_axes([-2, -1]);
    let right = permuted_rows(&kept(&keeps, tangent), &permutation);
    let solved = lower.apply(&packed, &right);
    let scaled = is_last_row.select(&solved, &solved * spread(&whole));
    let solved = kept(&keeps, &upper.apply(&packed, &scaled));
    diagonal(&solved).sum_axes(-1)
}

impl Primitive for Determinant {
    fn name(&self) -> &'static str {
        "determinant"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        check_real(OPERATION, operands)?;
        square_length(OPERATION, operands[0])?;
        Ok(vec![with_lengths(operands[0], &[])])
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let operand = &operands[0];
        let size = operand.shape()[operand.rank() - 1];
        if size == 0 {
            // The product of no pivots is 1.
            let result = with_lengths(operand.info(), &[]);
            return vec![Tensor::ones(result.dtype, &result.shape)];
        }
        vec![with_real!(operand.dtype(), T => {
            each_matrix::<T>(operand, &[], |matrix, target| {
                target[0] = determinant_of(matrix, size);
            })
        })]
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let operand = &primals[0];
        let result = apply(self, &[operand]).remove(0);
        let tangent =
            tangents[0]
                .as_ref()
                .and_then(|tangent| match operand.shape()[operand.rank() - 1] {
                    0 => None,
                    1 => Some(tangent.reshape(result.shape())),
                    2 | 3 => Some(by_cofactors(operand, tangent)),
                    _ => Some(trace_of_adjugate(operand, tangent)),
                });
        (vec![result], vec![tangent])
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        batch_of_one(self, operands, axes)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        block.computed(operands, |operands| {
            vec![lowering::determinant(&operands[0])]
        })
    }
}
