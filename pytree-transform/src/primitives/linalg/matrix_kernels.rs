//! Factorizations of one matrix, and triangular systems of equations.
//!
//! Each kernel divides a matrix until its blocks have at most [`BLOCK`] rows, and the kernels of matrix products combine
//! them. So the time of a large matrix is that of matrix products.

use std::ops::{DivAssign, Mul, Neg, Range, SubAssign};

use crate::base::array::{give_back, reused};
use crate::base::threads;
use crate::primitives::dot::matrix_product::{Factor, LoopAxis, Loops, multiply};

/// The greatest number of rows or columns of a block that is not divided.
const BLOCK: usize = 64;

/// An element type of matrices: `f32` or `f64`.
pub(super) trait Real:
    Factor + Copy + Neg<Output = Self> + Mul<Output = Self> + SubAssign + DivAssign
{
    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;

    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn is_finite(self) -> bool;
    fn to_f64(self) -> f64;
    fn from_f64(number: f64) -> Self;
}

macro_rules! real {
    ($float:ident) => {
        #[allow(
            clippy::cast_possible_truncation,
            trivial_numeric_casts,
            clippy::cast_lossless,
            reason = "results are rounded to the dtype"
        )]
        impl Real for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NAN: Self = $float::NAN;

            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn abs(self) -> Self {
                self.abs()
            }
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn from_f64(number: f64) -> Self {
                number as $float
            }
        }
    };
}

real!(f32);
real!(f64);

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
}

/// Returns the product of two matrices in row-major order. `[rows, columns, depth]` are its lengths, which are not 0.
pub(super) fn product<T: Real>(
    [rows, columns, depth]: [usize; 3],
    (left, by_left): (&[T], Strides),
    (right, by_right): (&[T], Strides),
) -> Vec<T> {
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
    let mut product = reused::<T>(rows * columns);
    multiply(&loops, left, right, &mut product, threads::count());
    product
}

/// Subtracts a matrix in row-major order with `columns` columns from a part of an array.
fn subtract<T: Real>(product: Vec<T>, columns: usize, elements: &mut [T], strides: Strides) {
    for (row, line) in product.chunks_exact(columns).enumerate() {
        for (column, &element) in line.iter().enumerate() {
            elements[strides.offset(row, column)] -= element;
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
    let solved = (&elements[start..], strides);
    let known = product([second.1, columns, first.1], (factor, by_matrix), solved);
    let target = &mut elements[strides.offset(second_start, 0)..];
    subtract(known, columns, target, strides);
    let solved = (target, strides);
    solve_triangular(part, (second.0, by_matrix), solved, [second.1, columns]);
}

/// Solves the rows of a block one after the other. It divides by zeros on the diagonal.
fn solve_block<T: Real>(
    part: Part,
    (matrix, by_matrix): (&[T], Strides),
    (elements, strides): (&mut [T], Strides),
    [size, columns]: [usize; 2],
) {
    let mut solved = reused::<T>(size * columns);
    for (position, element) in solved.iter_mut().enumerate() {
        *element = elements[strides.offset(position / columns, position % columns)];
    }
    for step in 0..size {
        let row = if part.is_lower { step } else { size - 1 - step };
        let (above, rest) = solved.split_at_mut(row * columns);
        let (line, below) = rest.split_at_mut(columns);
        let (known, first) = if part.is_lower {
            (above, 0)
        } else {
            (below, row + 1)
        };
        for (known, column) in known.chunks_exact(columns).zip(first..) {
            subtract_multiple(line, matrix[by_matrix.offset(row, column)], known);
        }
        if !part.has_unit_diagonal {
            let divisor = matrix[by_matrix.offset(row, row)];
            line.iter_mut().for_each(|element| *element /= divisor);
        }
    }
    for (position, &element) in solved.iter().enumerate() {
        elements[strides.offset(position / columns, position % columns)] = element;
    }
    give_back(solved);
}

fn subtract_multiple<T: Real>(target: &mut [T], factor: T, line: &[T]) {
    for (target, &element) in target.iter_mut().zip(line) {
        *target -= factor * element;
    }
}

/// Replaces the lower triangle of a symmetric matrix `A` with `size` rows by the matrix `L` of `A = L Lᵀ`. Does not
/// read the elements above the diagonal. Returns false if `A` is not positive definite or not finite. `stride` is the distance of
/// neighbouring rows.
pub(super) fn cholesky<T: Real>(elements: &mut [T], size: usize, stride: usize) -> bool {
    let strides = Strides::row_major(stride);
    if size <= BLOCK {
        return cholesky_block(elements, size, stride);
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
    let solved = (&*lower, strides);
    let squared = product([rest, rest, half], solved, (lower, strides.transposed()));
    subtract(squared, rest, &mut lower[half..], strides);
    cholesky(&mut lower[half..], rest, stride)
}

fn cholesky_block<T: Real>(elements: &mut [T], size: usize, stride: usize) -> bool {
    for step in 0..size {
        let pivot = elements[step * stride + step];
        if !(pivot > T::ZERO && pivot.is_finite()) {
            return false;
        }
        let root = pivot.sqrt();
        elements[step * stride + step] = root;
        let mut column = [T::ZERO; BLOCK];
        for row in step + 1..size {
            let line = &mut elements[row * stride..][step..=row];
            line[0] /= root;
            column[row] = line[0];
            let factor = line[0];
            subtract_multiple(&mut line[1..], factor, &column[step + 1..]);
        }
    }
    true
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
        let end = size.min(start + BLOCK);
        lu_panel(elements, size, start..end, permutation);
        let columns = size - end;
        if columns == 0 {
            break;
        }
        let (above, below) = elements.split_at_mut(end * size);
        let part = Part {
            is_lower: true,
            has_unit_diagonal: true,
        };
        // The solver reads `L` from the columns before `end`, and writes to the others.
        let triangle: Vec<T> = above[start * size..]
            .chunks_exact(size)
            .flat_map(|line| &line[start..end])
            .copied()
            .collect();
        let by_triangle = Strides::row_major(end - start);
        let right = (&mut above[strides.offset(start, end)..], strides);
        let lengths = [end - start, columns];
        solve_triangular(part, (&triangle, by_triangle), right, lengths);
        let right = (&above[strides.offset(start, end)..], strides);
        let lengths = [size - end, columns, end - start];
        let known = product(lengths, (&below[start..], strides), right);
        subtract(known, columns, &mut below[end..], strides);
    }
}

/// Factorizes the given columns from the diagonal on, and exchanges whole rows.
fn lu_panel<T: Real>(
    elements: &mut [T],
    size: usize,
    columns: Range<usize>,
    permutation: &mut [i32],
) {
    for step in columns.clone() {
        let mut pivot = step;
        for row in step + 1..size {
            if elements[row * size + step].abs() > elements[pivot * size + step].abs() {
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
            subtract_multiple(&mut line[rest.clone()], factor, &first[rest]);
        }
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
