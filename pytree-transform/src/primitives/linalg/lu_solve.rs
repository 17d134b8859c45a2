//! Systems of linear equations with a factorized matrix.

use std::fmt;

use pytree_core::bug::bug;
use smallvec::smallvec;

use super::lowering;
use super::lu::{Factors, positions};
use super::matrices::{
    adjoint, check_batch_axes, check_real, matrix_lengths, product, square_length, with_real,
};
use super::matrix_kernels::Real;
use super::triangular_solve::{Triangle, TriangularSolve};
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::error::{TensorError, or_panic};
use crate::base::shape::Shape;
use crate::primitives::elementwise::sum_of;
use crate::primitives::shape::{batch_axis_first, move_axis, reshape};
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Solves `A X = B` for `X`, or `Aᵀ X = B`. The operands are `A`, its factors and its permutation by
/// [`lu`](super::lu), and `B`.
///
/// The factors are a function of `A`, so all derivatives are with respect to `A` and `B`, and the tangents of the
/// factors are ignored. So derivatives of each order reuse the factors, as `custom_linear_solve` in JAX. Evaluation does
/// not read `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LuSolve {
    pub(crate) is_transposed: bool,
}

const OPERATION: &str = "solve the system of";

/// Solves `A X = B` with factors of `A`.
#[track_caller]
pub(crate) fn lu_solve(
    matrix: &Tensor,
    factors: &Factors,
    right: &Tensor,
) -> Result<Tensor, TensorError> {
    let is_transposed = false;
    let operands = [matrix, &factors.packed, &factors.permutation, right];
    bind_one(&LuSolve { is_transposed }, &operands)
}

const LOWER: TriangularSolve = TriangularSolve {
    side: super::Side::Left,
    triangle: Triangle::Lower,
    is_transposed: false,
    has_unit_diagonal: true,
};

const UPPER: TriangularSolve = TriangularSolve {
    triangle: Triangle::Upper,
    has_unit_diagonal: false,
    ..LOWER
};

impl LuSolve {
    #[track_caller]
    fn apply(self, operands: [&Tensor; 4]) -> Tensor {
        or_panic(bind_one(&self, &operands))
    }

    fn solve<T: Real>(
        self,
        (factors, permutation): (&[T], &[i32]),
        right: &[T],
        target: &mut [T],
        columns: usize,
    ) {
        let size = permutation.len();
        let lengths = [size, columns];
        let row = |position: i32| position.unsigned_abs() as usize * columns;
        if self.is_transposed {
            let mut solved = right.to_vec();
            UPPER
                .transposed()
                .solve(factors, size, &mut solved, lengths);
            LOWER
                .transposed()
                .solve(factors, size, &mut solved, lengths);
            for (line, &position) in solved.chunks_exact(columns).zip(permutation) {
                target[row(position)..][..columns].copy_from_slice(line);
            }
            return;
        }
        for (line, &position) in target.chunks_exact_mut(columns).zip(permutation) {
            line.copy_from_slice(&right[row(position)..][..columns]);
        }
        LOWER.solve(factors, size, target, lengths);
        UPPER.solve(factors, size, target, lengths);
    }

    fn evaluate_as<T: Real>(self, factors: &Array, permutation: &Array, right: &Array) -> Array {
        let shape = right.shape();
        let lengths = [shape[shape.len() - 2], shape[shape.len() - 1]];
        let mut elements = vec![T::ZERO; right.info.len()];
        if !elements.is_empty() {
            let [size, columns] = lengths;
            let matrices = factors.elements::<T>().chunks_exact(size * size);
            let permutations = permutation.elements::<i32>().chunks_exact(size);
            let right = right.elements::<T>().chunks_exact(size * columns);
            let targets = elements.chunks_exact_mut(size * columns);
            for (((matrix, permutation), right), target) in
                matrices.zip(permutations).zip(right).zip(targets)
            {
                self.solve((matrix, permutation), right, target, columns);
            }
        }
        Array::new(shape, elements)
    }
}

impl Primitive for LuSolve {
    fn name(&self) -> &'static str {
        "lu_solve"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let [matrix, factors, permutation, right] = operands else {
            bug(format_args!("four operands, found {}", operands.len()))
        };
        let pair = [*matrix, *right];
        check_real(OPERATION, &pair)?;
        let size = square_length(OPERATION, matrix)?;
        let [rows, _] = matrix_lengths(OPERATION, right)?;
        check_batch_axes(OPERATION, matrix, right, 2)?;
        if rows != size {
            return Err(TensorError::shape(
                OPERATION,
                &pair,
                format!("the matrix has {size} rows, but the right side has {rows}"),
                "did you mean to transpose one of them?",
            ));
        }
        let expected = positions(matrix);
        if factors != matrix || permutation.dtype != DType::I32 || **permutation != expected {
            return Err(TensorError::shape(
                OPERATION,
                operands,
                "the second and the third tensor are not the factors and the permutation of the matrix",
                "pass the results of the decomposition of the matrix",
            ));
        }
        Ok(one((*right).clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [_, factors, permutation, right] = take(operands);
        one(with_real!(right.dtype(), T => self.evaluate_as::<T>(&factors, &permutation, &right)))
    }

    /// `A X = B` gives `A X' = B' - A' X` (Giles, "Collected matrix derivative results for forward and reverse mode
    /// algorithmic differentiation", 2008, section 2.3.1).
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let solve = |right: &Tensor| self.apply([&primals[0], &primals[1], &primals[2], right]);
        let result = solve(&primals[3]);
        let of_matrix = tangents[0].as_ref().map(|tangent| {
            if self.is_transposed {
                -product(&adjoint(tangent), &result)
            } else {
                -product(tangent, &result)
            }
        });
        let tangent = sum_of(tangents[3].clone(), of_matrix);
        (one(result), one(tangent.map(|tangent| solve(&tangent))))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let solve = Self {
            is_transposed: !self.is_transposed,
        };
        let pulled = |cotangent| {
            let known = |position: usize| operands[position].known();
            solve.apply([known(0), known(1), known(2), cotangent])
        };
        smallvec![None, None, None, cotangents[0].as_ref().map(pulled)]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if axes.iter().all(Option::is_none) {
            return alone(self, operands);
        }
        let [matrix, factors, permutation, right] = operands else {
            bug(format_args!("four operands, found {}", operands.len()))
        };
        if let [None, None, None, Some(axis)] = axes[..] {
            // The examples become more columns.
            let last = right.rank() - 1;
            let moved = or_panic(move_axis(right, axis, last));
            let mut joined = Shape::from(moved.shape());
            joined[last - 1] *= joined[last];
            joined.remove(last);
            let right = or_panic(reshape(&moved, &joined));
            let solved = self.apply([matrix, factors, permutation, &right]);
            let result = or_panic(reshape(&solved, moved.shape()));
            return (one(result), one(Some(last)));
        }
        let first =
            |place: usize| or_panic(batch_axis_first(&operands[place], axes[place], batch.size));
        let result = self.apply([&first(0), &first(1), &first(2), &first(3)]);
        (one(result), one(Some(0)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        let (factors, permutation, right) = (&operands[1], &operands[2], &operands[3]);
        if right.info.is_empty() {
            return Ok(one(right.clone()));
        }
        if self.is_transposed {
            let solved = UPPER.transposed().lowered(block, factors, right);
            let solved = LOWER.transposed().lowered(block, factors, &solved);
            let inverse = lowering::inverse_permutation(block, permutation)?;
            return Ok(one(lowering::permuted_rows(block, &solved, &inverse)));
        }
        let permuted = lowering::permuted_rows(block, right, permutation);
        let solved = LOWER.lowered(block, factors, &permuted);
        Ok(one(UPPER.lowered(block, factors, &solved)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transpose_a={}", self.is_transposed)
    }
}
