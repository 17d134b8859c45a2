//! Systems of linear equations with a factorized matrix.

use std::fmt;

use pytree_transform::extend::{
    Block, Examples, Operand, Primitive, Tangents, Value, apply, try_apply,
};
use pytree_transform::{AbstractArray, DType, Tensor, TensorError};

use crate::kernels::memory::{copied, filled};
use crate::kernels::real::Real;
use crate::primitives::lu::{Factors, positions};
use crate::primitives::matrices::{
    Cotangents, Infos, Lowered, adjoint, batch_of_all, check_batch_axes, check_real, elements,
    known, lengths, matrix_lengths, permuted_rows, product, square_length, sum_of, with_real,
};
use crate::primitives::triangular_solve::{Side, Triangle, TriangularSolve};

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
    Ok(try_apply(&LuSolve { is_transposed }, &operands)?.remove(0))
}

const LOWER: TriangularSolve = TriangularSolve {
    side: Side::Left,
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
    pub(super) fn apply(self, operands: [&Tensor; 4]) -> Tensor {
        apply(&self, &operands).remove(0)
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
            let mut solved = copied(right);
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

    fn evaluate_as<T: Real>(
        self,
        factors: &Tensor,
        permutation: &Tensor,
        right: &Tensor,
    ) -> Tensor {
        let mut found = filled(T::ZERO, right.len());
        if !found.is_empty() {
            let [size, columns] = lengths(right);
            let matrices = elements::<T>(factors).chunks_exact(size * size);
            let permutations = elements::<i32>(permutation).chunks_exact(size);
            let right = elements::<T>(right).chunks_exact(size * columns);
            let targets = found.chunks_exact_mut(size * columns);
            for (((matrix, permutation), right), target) in
                matrices.zip(permutations).zip(right).zip(targets)
            {
                self.solve((matrix, permutation), right, target, columns);
            }
        }
        Tensor::new(right.shape(), found)
    }
}

/// Returns the inverse of permutations `[…, n]`: the position of each number.
fn inverse_permutation(permutation: &Tensor) -> Tensor {
    let rank = permutation.rank();
    let size = permutation.shape()[rank - 1];
    let shape = [permutation.shape(), &[size]].concat();
    let numbers = Tensor::iota(DType::I32, &shape, -1);
    let places = Tensor::iota(DType::I32, &shape, -2);
    let is_here = permutation.expand_dims(-1).equal(&numbers);
    is_here
        .select(&places, Tensor::zeros_like(&places))
        .sum_axes(-2)
}

impl Primitive for LuSolve {
    fn name(&self) -> &'static str {
        "lu_solve"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        let [matrix, factors, permutation, right] = [0, 1, 2, 3].map(|place| operands[place]);
        let pair = [matrix, right];
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
        if factors != matrix || permutation.dtype != DType::I32 || *permutation != expected {
            return Err(TensorError::shape(
                OPERATION,
                operands,
                "the second and the third tensor are not the factors and the permutation of the matrix",
                "pass the results of the decomposition of the matrix",
            ));
        }
        Ok(vec![right.clone()])
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let [factors, permutation, right] = [1, 2, 3].map(|place| &operands[place]);
        vec![with_real!(right.dtype(), T => self.evaluate_as::<T>(factors, permutation, right))]
    }

    /// `A X = B` gives `A X' = B' - A' X` (Giles, "Collected matrix derivative results for forward and reverse mode
    /// algorithmic differentiation", 2008, section 2.3.1).
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
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
        (vec![result], vec![tangent.map(|tangent| solve(&tangent))])
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Operand]) -> Cotangents {
        let solve = Self {
            is_transposed: !self.is_transposed,
        };
        let pulled = |cotangent| {
            let [matrix, factors, permutation] = [0, 1, 2].map(|place| known(&operands[place]));
            solve.apply([matrix, factors, permutation, cotangent])
        };
        vec![None, None, None, cotangents[0].as_ref().map(pulled)]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Examples {
        let [None, None, None, Some(axis)] = axes[..] else {
            return batch_of_all(self, operands, axes, size);
        };
        // The examples become more columns.
        let [matrix, factors, permutation, right] = [0, 1, 2, 3].map(|place| &operands[place]);
        let last = right.rank() - 1;
        let moved = right.move_axis(axis.cast_signed(), -1);
        let mut joined = moved.shape().to_vec();
        joined[last - 1] *= joined[last];
        joined.truncate(last);
        let solved = self.apply([matrix, factors, permutation, &moved.reshape(joined)]);
        (vec![solved.reshape(moved.shape())], vec![Some(last)])
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        block.computed(&operands[1..], |operands| {
            let [factors, permutation, right] = [0, 1, 2].map(|place| &operands[place]);
            if self.is_transposed {
                let solved = UPPER.transposed().apply(factors, right);
                let solved = LOWER.transposed().apply(factors, &solved);
                return vec![permuted_rows(&solved, &inverse_permutation(permutation))];
            }
            let solved = LOWER.apply(factors, &permuted_rows(right, permutation));
            vec![UPPER.apply(factors, &solved)]
        })
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transpose_a={}", self.is_transposed)
    }
}
