//! The determinant of square matrices.

use std::fmt;

use super::lowering;
use super::lu::{Factors, lu};
use super::matrices::{
    check_real, diagonal, each_matrix, mask, permuted_rows, square_length, with_axis, with_lengths,
    with_real,
};
use super::matrix_kernels::{self as kernels, Real};
use super::triangular_solve::{Triangle, TriangularSolve};
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::error::{TensorError, or_panic};
use crate::primitives::create;
use crate::primitives::elementwise::{compare, compare_with};
use crate::primitives::reduce::{Reduction, reduce_by, sum};
use crate::primitives::select::select;
use crate::primitives::shape::{broadcast_in_dim, move_axis, reshape};
use crate::primitives::slice::{concatenate, slice};
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, not_linear, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

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
    bind_one(&Determinant, &[operand])
}

const OPERATION: &str = "take the determinant of";

fn determinant_of<T: Real>(matrix: &[T], size: usize) -> T {
    let mut packed = matrix.to_vec();
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

/// Returns the sign of a permutation with the dtype `dtype`: 1 for an even number of exchanges, else -1.
#[track_caller]
pub(crate) fn parity_sign(pivots: &Tensor, dtype: DType) -> Tensor {
    let axis = pivots.rank() - 1;
    let rows = or_panic(create::iota(DType::I32, pivots.shape(), axis));
    let is_exchanged = or_panic(compare(Comparison::Ne, pivots, &rows));
    let ones = or_panic(create::full(dtype, pivots.shape(), 1.0));
    let signs = or_panic(select(&is_exchanged, &-&ones, &ones));
    or_panic(reduce_by(Reduction::Prod, &signs, &[axis]))
}

/// Returns the first `count` elements along the last axis.
fn leading(operand: &Tensor, count: usize) -> Tensor {
    let start = vec![0; operand.rank()];
    let mut limit = operand.shape().to_vec();
    limit[operand.rank() - 1] = count;
    or_panic(slice(operand, &start, &limit, &vec![1; operand.rank()]))
}

/// Returns `value` where `keeps`, which has the shape of the batch axes, and zeros elsewhere.
fn kept(keeps: &Tensor, value: &Tensor) -> Tensor {
    let axes: Vec<usize> = (0..keeps.rank()).collect();
    let keeps = or_panic(broadcast_in_dim(keeps, value.shape(), &axes));
    or_panic(select(&keeps, value, &create::zeros_like(value)))
}

/// Returns the directional derivative of the determinant of matrices with two or three rows: the sum of the products of
/// the elements of the tangent and the cofactors. It is a polynomial, so its derivatives exist at singular matrices, too.
#[track_caller]
fn by_cofactors(matrix: &Tensor, tangent: &Tensor) -> Tensor {
    let axis = matrix.rank() - 1;
    let turned = |rows, columns| rolled(&rolled(matrix, axis - 1, rows), axis, columns);
    let cofactors = if matrix.shape()[axis] == 2 {
        let minors = turned(1, 1);
        or_panic(select(&mask(matrix, Comparison::Eq), &minors, &-&minors))
    } else {
        turned(1, 1) * turned(2, 2) - turned(1, 2) * turned(2, 1)
    };
    or_panic(sum(&(cofactors * tangent), &[axis - 1, axis]))
}

/// Moves the elements along an axis by `count` positions to the front, and the first `count` elements to the end.
#[track_caller]
fn rolled(operand: &Tensor, axis: usize, count: usize) -> Tensor {
    let part = |range: std::ops::Range<usize>| {
        let mut starts = vec![0; operand.rank()];
        let mut limits = operand.shape().to_vec();
        (starts[axis], limits[axis]) = (range.start, range.end);
        or_panic(slice(operand, &starts, &limits, &vec![1; operand.rank()]))
    };
    let length = operand.shape()[axis];
    or_panic(concatenate(&[&part(count..length), &part(0..count)], axis))
}

/// Returns the trace of `adj(A) B`, which is the directional derivative of the determinant (Jacobi's formula).
///
/// With `A = P L U`, the adjugate is `det(A) U⁻¹ L⁻¹ P⁻¹`. If `A` has the rank n - 1, the last pivot is zero. So this
/// function replaces the last pivot by the reciprocal of the product of the others, and multiplies all rows except the
/// last by the determinant. For a lower rank the adjugate is zero. This is `_cofactor_solve` of `jax.numpy.linalg`.
#[track_caller]
fn trace_of_adjugate(matrix: &Tensor, tangent: &Tensor) -> Tensor {
    let rank = matrix.rank();
    let size = matrix.shape()[rank - 1];
    let Factors {
        packed,
        pivots,
        permutation,
    } = or_panic(lu(matrix));
    let pivot_values = diagonal(&packed);
    let sign = parity_sign(&pivots, matrix.dtype());
    let product = |values: &Tensor| or_panic(reduce_by(Reduction::Prod, values, &[rank - 2]));
    let whole = product(&pivot_values) * &sign;
    let of_others = product(&leading(&pivot_values, size - 1)) * &sign;
    let last_row = {
        let rows = or_panic(create::iota(DType::I32, matrix.shape(), rank - 2));
        compare_with(Comparison::Eq, &rows, (size - 1) as f64)
    };
    let is_last = {
        let in_diagonal = mask(matrix, Comparison::Eq);
        let none = or_panic(create::full(DType::Bool, matrix.shape(), 0.0));
        or_panic(select(&last_row, &in_diagonal, &none))
    };
    let axes: Vec<usize> = (0..rank - 2).collect();
    let spread = |value: &Tensor| or_panic(broadcast_in_dim(value, matrix.shape(), &axes));
    let packed = or_panic(select(&is_last, &spread(&(1.0 / &of_others)), &packed));
    let upper = TriangularSolve::new(Triangle::Upper);
    let lower = TriangularSolve::new(Triangle::Lower).with_unit_diagonal();
    // The solution is finite exactly if no other pivot is zero.
    let trial = upper.apply(
        &packed,
        &with_axis(&create::ones_like(&pivot_values), rank - 1),
    );
    let is_finite = compare_with(Comparison::Eq, &(trial * 0.0), 0.0);
    let keeps = or_panic(reduce_by(Reduction::And, &is_finite, &[rank - 2, rank - 1]));
    let right = permuted_rows(&kept(&keeps, tangent), &permutation);
    let solved = lower.apply(&packed, &right);
    let scaled = or_panic(select(&last_row, &solved, &(&solved * spread(&whole))));
    let solved = kept(&keeps, &upper.apply(&packed, &scaled));
    or_panic(sum(&diagonal(&solved), &[rank - 2]))
}

impl Primitive for Determinant {
    fn name(&self) -> &'static str {
        "determinant"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        check_real(OPERATION, operands)?;
        square_length(OPERATION, operands[0])?;
        Ok(one(with_lengths(operands[0], &[])))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let size = operand.shape()[operand.shape().len() - 1];
        let result = with_lengths(&operand.info, &[]);
        one(with_real!(operand.dtype(), T => if size == 0 {
            // The product of no pivots is 1.
            Array::new(&result.shape, vec![T::from(1.0_f32); result.len()])
        } else {
            each_matrix::<T>(&operand, &[], |matrix, target| {
                target[0] = determinant_of(matrix, size);
            })
        }))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let operand = &primals[0];
        let result = or_panic(determinant(operand));
        let tangent =
            tangents[0]
                .as_ref()
                .and_then(|tangent| match operand.shape()[operand.rank() - 1] {
                    0 => None,
                    1 => Some(or_panic(reshape(tangent, result.shape()))),
                    2 | 3 => Some(by_cofactors(operand, tangent)),
                    _ => Some(trace_of_adjugate(operand, tangent)),
                });
        (one(result), one(tangent))
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(axis) = axes[0] else {
            return alone(self, operands);
        };
        let operand = or_panic(move_axis(&operands[0], axis, 0));
        (one(or_panic(determinant(&operand))), one(Some(0)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        lowering::determinant(block, &operands[0]).map(one)
    }

    fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
