//! Factorizations of one matrix into triangles, and triangular systems of equations.
//!
//! faer solves triangular systems and computes Cholesky factors. LU is here: faer multiplies by the reciprocal of a pivot, so a
//! column of zeros becomes NaN, and one of subnormal numbers infinite.

use std::ops::Range;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{
    LltRegularization, cholesky_in_place, cholesky_in_place_scratch,
};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve as triangular;
use faer::{Accum, MatMut, MatRef, Par, Spec};

use crate::kernels::memory::buffer;
use crate::kernels::real::Real;

/// The number of columns that LU eliminates before the product of matrices that updates the others.
const BLOCK: usize = 32;

/// The triangle of a matrix that a kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Triangle {
    pub(crate) is_lower: bool,
    /// If true, the elements of the diagonal are not read, and count as 1.
    pub(crate) has_unit_diagonal: bool,
}

/// Solves `A X = B`, where `A` is a triangular matrix. `X` replaces `B`. A zero on the diagonal gives infinities and NaN.
pub(crate) fn solve_triangular<T: Real>(
    part: Triangle,
    matrix: MatRef<'_, T>,
    right: MatMut<'_, T>,
) {
    let size = matrix.nrows();
    let mut diagonal = (0..size).map(|row| matrix[(row, row)]);
    // faer multiplies by reciprocals.
    if !part.has_unit_diagonal && diagonal.any(T::has_no_reciprocal) {
        return substitute(part.is_lower, matrix, right);
    }
    let solve = match (part.is_lower, part.has_unit_diagonal) {
        (true, false) => triangular::solve_lower_triangular_in_place,
        (true, true) => triangular::solve_unit_lower_triangular_in_place,
        (false, false) => triangular::solve_upper_triangular_in_place,
        (false, true) => triangular::solve_unit_upper_triangular_in_place,
    };
    solve(matrix, right, Par::Seq);
}

/// Solves the rows one after the other, with divisions.
fn substitute<T: Real>(is_lower: bool, matrix: MatRef<'_, T>, mut right: MatMut<'_, T>) {
    let size = matrix.nrows();
    for step in 0..size {
        let row = if is_lower { step } else { size - 1 - step };
        let known = if is_lower { 0..row } else { row + 1..size };
        for column in 0..right.ncols() {
            let mut element = right[(row, column)];
            for other in known.clone() {
                element -= matrix[(row, other)] * right[(other, column)];
            }
            right[(row, column)] = element / matrix[(row, row)];
        }
    }
}

/// Returns memory for [`cholesky`] of matrices with `size` rows.
pub(crate) fn memory_for_cholesky<T: Real>(size: usize) -> MemBuffer {
    buffer(cholesky_in_place_scratch::<T>(
        size,
        Par::Seq,
        Spec::default(),
    ))
}

/// Replaces a symmetric matrix `A` with `size` rows by the matrix `L` of `A = L Lᵀ`, with zeros above the diagonal. Reads one
/// triangle of `A`. If `A` is not positive definite or not finite, `L` has NaN.
pub(crate) fn cholesky<T: Real>(elements: &mut [T], size: usize, memory: &mut MemBuffer) {
    // In column-major order, faer has vectors of neighbouring elements. So the factor replaces the upper triangle.
    let matrix = MatMut::from_column_major_slice_mut(&mut *elements, size, size);
    let stack = MemStack::new(memory);
    let regularization = LltRegularization::default();
    let found = cholesky_in_place(matrix, regularization, Par::Seq, stack, Spec::default());
    for row in 0..size {
        for column in 0..=row {
            let upper = std::mem::replace(&mut elements[column * size + row], T::ZERO);
            elements[row * size + column] = if found.is_ok() { upper } else { T::NAN };
        }
    }
}

/// Replaces a square matrix `A` with `size` rows by its factors `L` and `U`, where row `i` of `L U` is the row
/// `permutation[i]` of `A`. The diagonal of `L`, which is not stored, is 1. Each pivot is the element of its column
/// with the greatest absolute value. A column of zeros below the diagonal is left as it is, as in LAPACK.
pub(crate) fn lu<T: Real>(elements: &mut [T], size: usize, permutation: &mut [i32]) {
    for (position, row) in permutation.iter_mut().zip(0..) {
        *position = row;
    }
    for start in (0..size).step_by(BLOCK) {
        let end = size.min(start + BLOCK);
        lu_panel(elements, size, start..end, permutation);
        if end == size {
            break;
        }
        let whole = MatMut::from_row_major_slice_mut(&mut *elements, size, size);
        let rest = whole.submatrix_mut(start, start, size - start, size - start);
        let (triangle, mut right, below, rest) = rest.split_at_mut(end - start, end - start);
        let part = Triangle {
            is_lower: true,
            has_unit_diagonal: true,
        };
        solve_triangular(part, triangle.as_ref(), right.as_mut());
        matmul(
            rest,
            Accum::Add,
            below.as_ref(),
            right.as_ref(),
            -T::ONE,
            Par::Seq,
        );
    }
}

/// Factorizes the given columns from the diagonal on, and exchanges whole rows.
fn lu_panel<T: Real>(
    elements: &mut [T],
    size: usize,
    columns: Range<usize>,
    permutation: &mut [i32],
) {
    let magnitude = |element: T| if element < T::ZERO { -element } else { element };
    for step in columns.clone() {
        let mut pivot = step;
        for row in step + 1..size {
            if magnitude(elements[row * size + step]) > magnitude(elements[pivot * size + step]) {
                pivot = row;
            }
        }
        let (above, below) = elements.split_at_mut((step + 1) * size);
        let first = &mut above[step * size..];
        if pivot > step {
            permutation.swap(step, pivot);
            first.swap_with_slice(&mut below[(pivot - step - 1) * size..][..size]);
        }
        let divisor = first[step];
        if divisor == T::ZERO {
            continue;
        }
        for line in below.chunks_exact_mut(size) {
            line[step] /= divisor;
            let factor = line[step];
            let rest = step + 1..columns.end;
            for (target, &element) in line[rest.clone()].iter_mut().zip(&first[rest]) {
                *target -= factor * element;
            }
        }
    }
}

/// Returns the exchanges of rows that lead to a permutation: step `i` exchanges row `i` with row `pivots[i]`, which is
/// at or below row `i`.
pub(crate) fn pivots(permutation: &[i32]) -> Vec<i32> {
    let mut rows: Vec<i32> = (0..).take(permutation.len()).collect();
    // The position of each row in `rows`.
    let mut places: Vec<usize> = (0..permutation.len()).collect();
    let mut pivots = Vec::with_capacity(permutation.len());
    for (step, &row) in permutation.iter().enumerate() {
        let place = places[row.unsigned_abs() as usize];
        pivots.push(i32::try_from(place).unwrap_or(i32::MAX));
        let moved = rows[step];
        places[moved.unsigned_abs() as usize] = place;
        rows[place] = moved;
    }
    pivots
}
