//! Systems of linear equations with a triangular matrix.

use std::fmt;

use smallvec::smallvec;

use super::matrices::{
    adjoint, check_batch_axes, check_real, matrix_lengths, part, product, square_length, with_real,
};
use super::matrix_kernels::{self as kernels, Part, Strides};
use crate::base::array::Array;
use crate::base::dtype::AbstractArray;
use crate::base::error::{TensorError, or_panic};
use crate::base::shape::Shape;
use crate::primitives::elementwise::sum_of;
use crate::primitives::shape::{batch_axis_first, move_axis, reshape};
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// The triangle of a matrix that is read. The other triangle counts as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Triangle {
    Lower,
    Upper,
}

/// The side of the unknown matrix at which the triangular matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Solves `A X = B` or `X A = B` for `X`, where the first operand `A` is a triangular matrix, which may be transposed. A
/// zero on the diagonal gives infinities and NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TriangularSolve {
    pub(crate) side: Side,
    /// The triangle of `A` before it is transposed.
    pub(crate) triangle: Triangle,
    pub(crate) is_transposed: bool,
    /// If true, the diagonal of `A` is not read, and counts as ones.
    pub(crate) has_unit_diagonal: bool,
}

const OPERATION: &str = "solve the triangular system of";

impl TriangularSolve {
    /// Creates the system `A X = B`.
    pub(crate) fn new(triangle: Triangle) -> Self {
        Self {
            side: Side::Left,
            triangle,
            is_transposed: false,
            has_unit_diagonal: false,
        }
    }

    /// Returns the system with the transposed matrix.
    pub(crate) fn transposed(self) -> Self {
        Self {
            is_transposed: !self.is_transposed,
            ..self
        }
    }

    /// Returns the system with the matrix at the given side.
    pub(crate) fn on_side(self, side: Side) -> Self {
        Self { side, ..self }
    }

    /// Returns the system with ones on the diagonal.
    pub(crate) fn with_unit_diagonal(self) -> Self {
        Self {
            has_unit_diagonal: true,
            ..self
        }
    }

    /// Solves the system, for use in rules.
    #[track_caller]
    pub(crate) fn apply(self, matrix: &Tensor, right: &Tensor) -> Tensor {
        or_panic(bind_one(&self, &[matrix, right]))
    }

    /// Solves the system on one matrix. `elements` has the elements of `B`, which `X` replaces.
    pub(super) fn solve<T: kernels::Real>(
        self,
        matrix: &[T],
        size: usize,
        elements: &mut [T],
        [rows, columns]: [usize; 2],
    ) {
        let by_matrix = Strides::row_major(size);
        let strides = Strides::row_major(columns);
        // `X A = B` is `Aᵀ Xᵀ = Bᵀ`.
        let is_left = self.side == Side::Left;
        let is_turned = self.is_transposed == is_left;
        let part = Part {
            is_lower: (self.triangle == Triangle::Lower) != is_turned,
            has_unit_diagonal: self.has_unit_diagonal,
        };
        let by_matrix = if is_turned {
            by_matrix.transposed()
        } else {
            by_matrix
        };
        let (strides, count) = if is_left {
            (strides, columns)
        } else {
            (strides.transposed(), rows)
        };
        kernels::solve_triangular(
            part,
            (matrix, by_matrix),
            (elements, strides),
            [size, count],
        );
    }

    /// Solves the system for a batch of `B` and a single `A`: the examples become more columns of `B`, or more rows.
    fn batch_of_right(self, matrix: &Tensor, right: &Tensor, axis: usize) -> Batched {
        let last = right.rank() - 1;
        // The axes of the rows and of the columns without the batch axis are `last - 2` and `last - 1`.
        let place = if self.side == Side::Left {
            last
        } else {
            last - 1
        };
        let moved = or_panic(move_axis(right, axis, place));
        let mut joined = Shape::from(moved.shape());
        joined[place - 1] *= joined[place];
        joined.remove(place);
        let solved = self.apply(matrix, &or_panic(reshape(&moved, &joined)));
        let result = or_panic(reshape(&solved, moved.shape()));
        (one(result), one(Some(place)))
    }
}

impl Primitive for TriangularSolve {
    fn name(&self) -> &'static str {
        "triangular_solve"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (matrix, right) = (operands[0], operands[1]);
        check_real(OPERATION, operands)?;
        let size = square_length(OPERATION, matrix)?;
        let lengths = matrix_lengths(OPERATION, right)?;
        check_batch_axes(OPERATION, matrix, right, 2)?;
        let (what, length) = match self.side {
            Side::Left => ("rows", lengths[0]),
            Side::Right => ("columns", lengths[1]),
        };
        if length != size {
            return Err(TensorError::shape(
                OPERATION,
                operands,
                format!(
                    "the triangular matrix has {size} rows, but the right side has {length} {what}"
                ),
                "did you mean to transpose one of them?",
            ));
        }
        Ok(one(right.clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [matrix, right] = take(operands);
        let info = right.info.clone();
        let rank = info.rank();
        let lengths = [info.shape[rank - 2], info.shape[rank - 1]];
        let size = matrix.shape()[rank - 1];
        one(with_real!(info.dtype, T => {
            let mut elements = Array::into_elements::<T>(right);
            if !elements.is_empty() {
                let matrices = matrix.elements::<T>().chunks_exact(size * size);
                let parts = elements.chunks_exact_mut(lengths[0] * lengths[1]);
                for (matrix, elements) in matrices.zip(parts) {
                    self.solve(matrix, size, elements, lengths);
                }
            }
            Array::new(&info.shape, elements)
        }))
    }

    /// `A X = B` gives `A X' = B' - A' X`, and `X A = B` gives `X' A = B' - X A'` (Giles, "Collected matrix derivative
    /// results for forward and reverse mode algorithmic differentiation", 2008, section 2.3.1).
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let matrix = &primals[0];
        let result = self.apply(matrix, &primals[1]);
        let of_matrix = tangents[0].as_ref().map(|tangent| {
            let comparison = match (self.triangle, self.has_unit_diagonal) {
                (Triangle::Lower, false) => Comparison::Le,
                (Triangle::Lower, true) => Comparison::Lt,
                (Triangle::Upper, false) => Comparison::Ge,
                (Triangle::Upper, true) => Comparison::Gt,
            };
            let tangent = part(tangent, comparison);
            let tangent = if self.is_transposed {
                adjoint(&tangent)
            } else {
                tangent
            };
            match self.side {
                Side::Left => -product(&tangent, &result),
                Side::Right => -product(&result, &tangent),
            }
        });
        let tangent = sum_of(tangents[1].clone(), of_matrix);
        let tangent = tangent.map(|tangent| self.apply(matrix, &tangent));
        (one(result), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let pulled = |cotangent| self.transposed().apply(operands[0].known(), cotangent);
        smallvec![None, cotangents[0].as_ref().map(pulled)]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        match (axes[0], axes[1]) {
            (None, None) => alone(self, operands),
            (None, Some(axis)) => self.batch_of_right(&operands[0], &operands[1], axis),
            _ => {
                let first = |place: usize| {
                    or_panic(batch_axis_first(&operands[place], axes[place], batch.size))
                };
                (one(self.apply(&first(0), &first(1))), one(Some(0)))
            }
        }
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        Ok(one(self.lowered(block, &operands[0], &operands[1])))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "left_side={} lower={} transpose_a={} unit_diagonal={}",
            self.side == Side::Left,
            self.triangle == Triangle::Lower,
            self.is_transposed,
            self.has_unit_diagonal
        )
    }
}

impl TriangularSolve {
    /// Writes the operation of StableHLO that solves the system.
    pub(super) fn lowered(self, block: &mut Block<'_>, matrix: &Value, right: &Value) -> Value {
        if right.info.is_empty() {
            return right.clone();
        }
        let attributes = format_args!(
            "left_side = {}, lower = {}, transpose_a = #stablehlo<transpose {}>, unit_diagonal = {}",
            self.side == Side::Left,
            self.triangle == Triangle::Lower,
            if self.is_transposed {
                "TRANSPOSE"
            } else {
                "NO_TRANSPOSE"
            },
            self.has_unit_diagonal
        );
        let result = right.info.clone();
        block.operation(
            "stablehlo.triangular_solve",
            &[matrix, right],
            attributes,
            result,
        )
    }
}
