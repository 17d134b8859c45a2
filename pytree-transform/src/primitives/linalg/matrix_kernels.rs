//! Factorizations of one matrix, and triangular systems of equations.
//!
//! Each kernel divides a matrix until its blocks have at most [`BLOCK`] rows. `nalgebra` factorizes and solves single
//! blocks, and the kernels of matrix products combine them. So the time of a large matrix is that of matrix products.
//! `nalgebra` stores matrices by columns, and this library by rows, so blocks are copied.

use nalgebra::{Cholesky, DMatrix, DVector, LU, RealField};

use crate::base::array::{give_back, reused};
use crate::base::threads;
use crate::primitives::dot::matrix_product::{Factor, LoopAxis, Loops, multiply};

/// The greatest number of rows or columns of a block that is not divided.
const BLOCK: usize = 64;

/// An element type of matrices: `f32` or `f64`.
pub(super) trait Real: Factor + RealField + Copy {}

impl Real for f32 {}
impl Real for f64 {}

/// A matrix that is a part of an array. The elements of a column are `rows` apart, and those of a row are `columns`
/// apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Strides {
    /// Returns the strides of a row-major matrix.
    pub(super) fn row_major(columns: usize) -> Self {
        Self {
            rows: columns,
            columns: 1,
        }
    }

    /// Returns the strides of the transposed matrix.
    pub(super) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
        }
    }

    fn offset(self, row: usize, column: usize) -> usize {
        row * self.rows + column * self.columns
    }

    fn loaded<T: Real>(self, elements: &[T], rows: usize, columns: usize) -> DMatrix<T> {
        DMatrix::from_fn(rows, columns, |row, column| {
            elements[self.offset(row, column)]
        })
    }

    pub(super) fn store<T: Real>(self, matrix: &DMatrix<T>, elements: &mut [T]) {
        for column in 0..matrix.ncols() {
            for row in 0..matrix.nrows() {
                elements[self.offset(row, column)] = matrix[(row, column)];
            }
        }
    }
}

/// Subtracts the product of two matrices from a third one. `[rows, columns, depth]` are the lengths of the product.
/// The target begins at `start` in `elements`. `factors` computes the product, because a factor may be another part of
/// `elements`.
fn subtract_product<T: Real>(
    lengths: [usize; 3],
    elements: &mut [T],
    (start, strides): (usize, Strides),
    factors: impl FnOnce(&[T], &mut dyn FnMut((&[T], Strides), (&[T], Strides))),
) {
    let [rows, columns, depth] = lengths;
    if rows == 0 || columns == 0 {
        return;
    }
    let mut product = reused::<T>(rows * columns);
    factors(elements, &mut |(left, by_left), (right, by_right)| {
        let axis = |length, left, right, result| LoopAxis {
            length,
            left,
            right,
            result,
        };
        let loops = Loops::single(
            axis(rows, by_left.rows, 0, columns),
            axis(columns, 0, by_right.columns, 1),
            axis(depth, by_left.columns, by_right.rows, 0),
        );
        multiply(&loops, left, right, &mut product, threads::count());
    });
    for (row, line) in product.chunks_exact(columns).enumerate() {
        for (column, &element) in line.iter().enumerate() {
            elements[start + strides.offset(row, column)] -= element;
        }
    }
    give_back(product);
}

/// The triangle of a matrix that a kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) is_lower: bool,
    /// If true, the elements of the diagonal are not read, and count as 1.
    pub(super) has_unit_diagonal: bool,
}

/// Solves `A X = B`, where `A` is a triangular matrix with `size` rows, and `B` has `columns` columns. `X` replaces `B`
/// in `elements`. A zero on the diagonal gives infinities and NaN.
pub(super) fn solve_triangular<T: Real>(
    part: Part,
    (matrix, by_matrix): (&[T], Strides),
    (elements, strides): (&mut [T], Strides),
    [size, columns]: [usize; 2],
) {
    if size == 0 || columns == 0 {
        return;
    }
    if size <= BLOCK {
        return solve_block(
            part,
            (matrix, by_matrix),
            (elements, strides),
            [size, columns],
        );
    }
    let half = (size / 2).next_multiple_of(BLOCK);
    let rest = size - half;
    let last = &matrix[by_matrix.offset(half, half)..];
    // The rows that are solved first, and the rows from which their product is subtracted.
    let (first, first_start, second, second_start) = if part.is_lower {
        ((matrix, half), 0, (last, rest), half)
    } else {
        ((last, rest), half, (matrix, half), 0)
    };
    let start = strides.offset(first_start, 0);
    let solved = (&mut elements[start..], strides);
    solve_triangular(part, (first.0, by_matrix), solved, [first.1, columns]);
    let factor = &matrix[by_matrix.offset(second_start, first_start)..];
    let target = (strides.offset(second_start, 0), strides);
    subtract_product(
        [second.1, columns, first.1],
        elements,
        target,
        |elements, multiply| multiply((factor, by_matrix), (&elements[start..], strides)),
    );
    let solved = (&mut elements[target.0..], strides);
    solve_triangular(part, (second.0, by_matrix), solved, [second.1, columns]);
}

fn solve_block<T: Real>(
    part: Part,
    (matrix, by_matrix): (&[T], Strides),
    (elements, strides): (&mut [T], Strides),
    [size, columns]: [usize; 2],
) {
    let mut matrix = by_matrix.loaded(matrix, size, size);
    if part.has_unit_diagonal {
        matrix.fill_diagonal(T::one());
    }
    let mut right = strides.loaded(elements, size, columns);
    // The unchecked functions divide by zeros on the diagonal. The others would leave the equations unsolved.
    if part.is_lower {
        matrix.solve_lower_triangular_unchecked_mut(&mut right);
    } else {
        matrix.solve_upper_triangular_unchecked_mut(&mut right);
    }
    strides.store(&right, elements);
}

/// Replaces the lower triangle of a symmetric matrix `A` with `size` rows by the matrix `L` of `A = L Lᵀ`. Does not
/// read the elements above the diagonal. Returns false if `A` is not positive definite. `stride` is the distance of
/// neighbouring rows.
pub(super) fn cholesky<T: Real>(elements: &mut [T], size: usize, stride: usize) -> bool {
    let strides = Strides::row_major(stride);
    if size <= BLOCK {
        let Some(factor) = Cholesky::new(strides.loaded(elements, size, size)) else {
            return false;
        };
        let factor = factor.unpack_dirty();
        for row in 0..size {
            for column in 0..=row {
                elements[strides.offset(row, column)] = factor[(row, column)];
            }
        }
        return true;
    }
    let half = (size / 2).next_multiple_of(BLOCK);
    let rest = size - half;
    if !cholesky(elements, half, stride) {
        return false;
    }
    let (upper, lower) = elements.split_at_mut(half * stride);
    let part = Part {
        is_lower: true,
        has_unit_diagonal: false,
    };
    let below = (&mut *lower, strides.transposed());
    solve_triangular(part, (upper, strides), below, [half, rest]);
    let lengths = [rest, rest, half];
    subtract_product(lengths, lower, (half, strides), |lower, multiply| {
        multiply((lower, strides), (lower, strides.transposed()));
    });
    cholesky(&mut lower[half..], rest, stride)
}

/// Replaces a square matrix `A` with `size` rows by its factors `L` and `U`, where row `i` of `L U` is the row
/// `permutation[i]` of `A`. The diagonal of `L`, which is not stored, is 1. Each pivot is the element of its column
/// with the greatest absolute value. A column of zeros below the diagonal is left as it is, as in LAPACK.
pub(super) fn lu<T: Real>(elements: &mut [T], size: usize, permutation: &mut [i32]) {
    let strides = Strides::row_major(size);
    for (position, row) in permutation.iter_mut().zip(0..) {
        *position = row;
    }
    for start in (0..size).step_by(BLOCK) {
        let width = BLOCK.min(size - start);
        let end = start + width;
        let panel = strides.loaded(
            &elements[strides.offset(start, start)..],
            size - start,
            width,
        );
        let (order, lower, upper) = LU::new(panel).unpack();
        let mut rows = DVector::from_fn(size - start, |row, _| start + row);
        order.permute_rows(&mut rows);
        permute_rows(&mut elements[start * size..], size, &rows, start);
        let old = permutation.to_vec();
        for (position, &row) in permutation[start..].iter_mut().zip(rows.iter()) {
            *position = old[row];
        }
        for row in 0..size - start {
            for column in 0..width {
                let source = if row > column { &lower } else { &upper };
                elements[strides.offset(start + row, start + column)] = source[(row, column)];
            }
        }
        let (above, below) = elements.split_at_mut(end * size);
        let triangle = Strides::row_major(width);
        let first = lower.rows(0, width).transpose();
        let part = Part {
            is_lower: true,
            has_unit_diagonal: true,
        };
        let columns = size - end;
        if columns == 0 {
            break;
        }
        let right = (&mut above[strides.offset(start, end)..], strides);
        solve_triangular(part, (first.as_slice(), triangle), right, [width, columns]);
        let right = &above[strides.offset(start, end)..];
        let lengths = [size - end, columns, width];
        subtract_product(lengths, below, (end, strides), |below, multiply| {
            multiply((&below[start..], strides), (right, strides));
        });
    }
}

/// Moves the rows with the numbers `rows` to the first, second, … row of `elements`. `first` is the number of the first
/// row.
fn permute_rows<T: Real>(elements: &mut [T], size: usize, rows: &DVector<usize>, first: usize) {
    let old = elements.to_vec();
    for (target, &row) in elements.chunks_exact_mut(size).zip(rows.iter()) {
        target.copy_from_slice(&old[(row - first) * size..][..size]);
    }
}

/// Returns the exchanges of rows that lead to a permutation: step `i` exchanges row `i` with row `pivots[i]`, which is
/// at or below row `i`.
pub(super) fn pivots(permutation: &[i32]) -> Vec<i32> {
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
