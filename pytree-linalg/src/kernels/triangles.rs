//! Factorizations of one matrix, and triangular systems of equations.
//!
//! Each kernel divides a matrix until its blocks have at most [`BLOCK`] rows, and the kernels of matrix products combine
//! them. So the time of a large matrix is that of matrix products.

use std::ops::Range;

use pytree_transform::extend::{Strides, matrix_product};

use crate::kernels::real::Real;

/// The greatest number of rows or columns of a block that is not divided.
const BLOCK: usize = 64;

/// Returns the product of two matrices in row-major order, in `memory`, which the next product uses again. `lengths` is
/// `[rows, columns, depth]`.
fn product<'m, T: Real>(
    lengths: [usize; 3],
    left: (&[T], Strides),
    right: (&[T], Strides),
    memory: &'m mut Vec<T>,
) -> &'m [T] {
    let count = lengths[0] * lengths[1];
    if memory.len() < count {
        memory.resize(count, T::ZERO);
    }
    let product = &mut memory[..count];
    matrix_product(lengths, left, right, product);
    product
}

/// Subtracts a matrix in row-major order with `columns` columns from a part of an array.
fn subtract<T: Real>(product: &[T], columns: usize, elements: &mut [T], strides: Strides) {
    for (row, line) in product.chunks_exact(columns).enumerate() {
        for (column, &element) in line.iter().enumerate() {
            elements[strides.offset(row, column)] -= element;
        }
    }
}

/// The triangle of a matrix that a kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Triangle {
    pub(crate) is_lower: bool,
    /// If true, the elements of the diagonal are not read, and count as 1.
    pub(crate) has_unit_diagonal: bool,
}

/// Solves `A X = B`, where `A` is a triangular matrix with `size` rows, and `B` has `columns` columns. `X` replaces `B`
/// in `elements`. A zero on the diagonal gives infinities and NaN.
pub(crate) fn solve_triangular<T: Real>(
    part: Triangle,
    (matrix, by_matrix): (&[T], Strides),
    (elements, strides): (&mut [T], Strides),
    [size, columns]: [usize; 2],
    memory: &mut Vec<T>,
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
            memory,
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
    solve_triangular(
        part,
        (first.0, by_matrix),
        solved,
        [first.1, columns],
        memory,
    );
    let factor = &matrix[by_matrix.offset(second_start, first_start)..];
    let solved = (&elements[start..], strides);
    let lengths = [second.1, columns, first.1];
    let known = product(lengths, (factor, by_matrix), solved, memory);
    let target = &mut elements[strides.offset(second_start, 0)..];
    subtract(known, columns, target, strides);
    let solved = (target, strides);
    solve_triangular(
        part,
        (second.0, by_matrix),
        solved,
        [second.1, columns],
        memory,
    );
}

/// Solves the rows of a block one after the other. It divides by zeros on the diagonal.
fn solve_block<T: Real>(
    part: Triangle,
    (matrix, by_matrix): (&[T], Strides),
    (elements, strides): (&mut [T], Strides),
    [size, columns]: [usize; 2],
    memory: &mut Vec<T>,
) {
    memory.clear();
    memory.extend((0..size).flat_map(|row| {
        let elements = &*elements;
        (0..columns).map(move |column| elements[strides.offset(row, column)])
    }));
    let solved = &mut memory[..];
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
}

fn subtract_multiple<T: Real>(target: &mut [T], factor: T, line: &[T]) {
    for (target, &element) in target.iter_mut().zip(line) {
        *target -= factor * element;
    }
}

/// Replaces the lower triangle of a symmetric matrix `A` with `size` rows by the matrix `L` of `A = L Lᵀ`. Does not
/// read the elements above the diagonal. Returns false if `A` is not positive definite or not finite. `stride` is the distance of
/// neighbouring rows. `memory` is used again by each call.
pub(crate) fn cholesky<T: Real>(
    elements: &mut [T],
    size: usize,
    stride: usize,
    memory: &mut Vec<T>,
) -> bool {
    let strides = Strides::row_major(stride);
    if size <= BLOCK {
        return cholesky_block(elements, size, stride);
    }
    let half = (size / 2).next_multiple_of(BLOCK);
    let rest = size - half;
    if !cholesky(elements, half, stride, memory) {
        return false;
    }
    let (upper, lower) = elements.split_at_mut(half * stride);
    let part = Triangle {
        is_lower: true,
        has_unit_diagonal: false,
    };
    let below = (&mut *lower, strides.transposed());
    solve_triangular(part, (upper, strides), below, [half, rest], memory);
    let solved = (&*lower, strides);
    let turned = (&*lower, strides.transposed());
    let squared = product([rest, rest, half], solved, turned, memory);
    subtract(squared, rest, &mut lower[half..], strides);
    cholesky(&mut lower[half..], rest, stride, memory)
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
pub(crate) fn lu<T: Real>(
    elements: &mut [T],
    size: usize,
    permutation: &mut [i32],
    memory: &mut Vec<T>,
) {
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
        let part = Triangle {
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
        solve_triangular(part, (&triangle, by_triangle), right, lengths, memory);
        let right = (&above[strides.offset(start, end)..], strides);
        let lengths = [size - end, columns, end - start];
        let known = product(lengths, (&below[start..], strides), right, memory);
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
