//! Systems of linear equations with a triangular matrix.

use std::fmt;

use faer::{MatMut, MatRef};
use pytree_transform::extend::{Block, Examples, Operand, Primitive, Tangents, Value, apply};
use pytree_transform::{AbstractArray, Tensor, TensorError};

use crate::kernels::memory::copied;
use crate::kernels::real::Real;
use crate::kernels::triangles::{self as kernels, Triangle as ReadTriangle};
use crate::primitives::matrices::{
    Cotangents, Infos, Lowered, MatrixPart, adjoint, batch_of_all, check_batch_axes, check_real,
    elements, known, lengths, matrix_lengths, part, product, square_length, sum_of, with_real,
};

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
        apply(&self, &[matrix, right]).remove(0)
    }

    /// Solves the system on one matrix. `elements` has the elements of `B`, which `X` replaces.
    pub(super) fn solve<T: Real>(
        self,
        matrix: &[T],
        size: usize,
        elements: &mut [T],
        [rows, columns]: [usize; 2],
    ) {
        let matrix = MatRef::from_row_major_slice(matrix, size, size);
        let right = MatMut::from_row_major_slice_mut(elements, rows, columns);
        // `X A = B` is `Aᵀ Xᵀ = Bᵀ`.
        let is_left = self.side == Side::Left;
        let is_turned = self.is_transposed == is_left;
        let part = ReadTriangle {
            is_lower: (self.triangle == Triangle::Lower) != is_turned,
            has_unit_diagonal: self.has_unit_diagonal,
        };
        let matrix = if is_turned {
            matrix.transpose()
        } else {
            matrix
        };
        let right = if is_left {
            right
        } else {
            right.transpose_mut()
        };
        kernels::solve_triangular(part, matrix, right);
    }

    /// Solves the system for a batch of `B` and a single `A`: the examples become more columns of `B`, or more rows.
    fn batch_of_right(self, matrix: &Tensor, right: &Tensor, axis: usize) -> Examples {
        let last = right.rank() - 1;
        // The axes of the rows and of the columns without the batch axis are `last - 2` and `last - 1`.
        let place = if self.side == Side::Left {
            last
        } else {
            last - 1
        };
        let moved = right.move_axis(axis.cast_signed(), place.cast_signed());
        let mut joined = moved.shape().to_vec();
        joined[place - 1] *= joined[place];
        joined.remove(place);
        let solved = self.apply(matrix, &moved.reshape(joined));
        (vec![solved.reshape(moved.shape())], vec![Some(place)])
    }
}

impl Primitive for TriangularSolve {
    fn name(&self) -> &'static str {
        "triangular_solve"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
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
        Ok(vec![right.clone()])
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let (matrix, right) = (&operands[0], &operands[1]);
        let lengths = lengths(right);
        let size = matrix.shape()[matrix.rank() - 1];
        vec![with_real!(right.dtype(), T => {
            let mut found = copied(elements::<T>(right));
            if !found.is_empty() {
                let matrices = elements::<T>(matrix).chunks_exact(size * size);
                let parts = found.chunks_exact_mut(lengths[0] * lengths[1]);
                for (matrix, found) in matrices.zip(parts) {
                    self.solve(matrix, size, found, lengths);
                }
            }
            Tensor::new(right.shape(), found)
        })]
    }

    /// `A X = B` gives `A X' = B' - A' X`, and `X A = B` gives `X' A = B' - X A'` (Giles, "Collected matrix derivative
    /// results for forward and reverse mode algorithmic differentiation", 2008, section 2.3.1).
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let matrix = &primals[0];
        let result = self.apply(matrix, &primals[1]);
        let of_matrix = tangents[0].as_ref().map(|tangent| {
            let read = match (self.triangle, self.has_unit_diagonal) {
                (Triangle::Lower, false) => MatrixPart::Lower,
                (Triangle::Lower, true) => MatrixPart::BelowDiagonal,
                (Triangle::Upper, false) => MatrixPart::Upper,
                (Triangle::Upper, true) => MatrixPart::AboveDiagonal,
            };
            let tangent = part(tangent, read);
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
        (vec![result], vec![tangent])
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Operand]) -> Cotangents {
        let pulled = |cotangent| self.transposed().apply(known(&operands[0]), cotangent);
        vec![None, cotangents[0].as_ref().map(pulled)]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Examples {
        match (axes[0], axes[1]) {
            (None, Some(axis)) => self.batch_of_right(&operands[0], &operands[1], axis),
            _ => batch_of_all(self, operands, axes, size),
        }
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
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
        let operands = [&operands[0], &operands[1]];
        let result = results[0].clone();
        let name = "stablehlo.triangular_solve";
        Ok(vec![block.operation(name, &operands, attributes, result)])
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
