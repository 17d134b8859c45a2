//! Householder reflections, and the QR decomposition, which consists of them.
//!
//! These are the algorithms of LAPACK (`dlarfg`, `dgeqr2`, `dorg2r`), so the signs of QR are those of JAX.

use crate::kernels::columns::{Columns, add_multiple, dot, unit_of};
use crate::kernels::real::Real;

/// Computes the reflection `I - τ v vᵀ` that maps a column to a multiple of the first unit vector. The first element of
/// `v` is 1. Replaces the first element by the multiple, and the others by those of `v`. Returns τ.
pub(crate) fn reflect(column: &mut [f64]) -> f64 {
    let unit = unit_of(column.iter().copied());
    let Some((head, tail)) = column.split_first_mut() else {
        return 0.0;
    };
    if tail.iter().all(|&element| element == 0.0) {
        return 0.0;
    }
    // The squares of the quotients do not overflow, and not all of them underflow.
    let first = *head / unit;
    let squares = |sum, &element: &f64| sum + (element / unit) * (element / unit);
    let norm = tail.iter().fold(first * first, squares).sqrt();
    let target = if first < 0.0 { norm } else { -norm };
    for element in tail {
        *element = *element / unit / (first - target);
    }
    *head = target * unit;
    (target - first) / target
}

/// Replaces the columns of `Q`, which are zeros below the ones on the diagonal, by those of the product of reflections.
/// Reflection `i`, whose τ is `scales[i]`, is in column `i` of `packed`; its `v` begins in row `i + shift`.
pub(crate) fn multiply(packed: &Columns, scales: &[f64], shift: usize, target: &mut Columns) {
    for (step, &scale) in scales.iter().enumerate().rev() {
        let first = step + shift;
        let reflection = &packed.column(step)[first + 1..];
        for column in first..target.count() {
            let column = &mut target.column_mut(column)[first..];
            apply(reflection, scale, column);
        }
    }
}

/// Applies the reflection `I - τ v vᵀ`. `reflection` has the elements of `v` after the first one, which is 1.
fn apply(reflection: &[f64], scale: f64, column: &mut [f64]) {
    let projection = scale * (column[0] + dot(reflection, &column[1..]));
    column[0] -= projection;
    add_multiple(&mut column[1..], -projection, reflection);
}

/// Reduces a matrix to an upper triangle by reflections, which replace the elements below the diagonal. Returns the τ of
/// each.
fn triangularize(packed: &mut Columns) -> Vec<f64> {
    let rows = packed.rows;
    (0..rows.min(packed.count()))
        .map(|step| {
            let (left, right) = packed.split_at_mut(step + 1);
            let column = &mut left[step * rows..][step..];
            let scale = reflect(column);
            for other in right.chunks_exact_mut(rows) {
                apply(&column[1..], scale, &mut other[step..]);
            }
            scale
        })
        .collect()
}

/// Computes `A = Q R` of a matrix in row-major order with `rows` rows and `columns` columns. `Q` has
/// min(`rows`, `columns`) columns, which are orthonormal. `R` is zero below the diagonal. NaN
/// and infinities stay in the factors.
pub(crate) fn qr<T: Real>(
    matrix: &[T],
    [rows, columns]: [usize; 2],
    orthogonal: &mut [T],
    triangular: &mut [T],
) {
    let count = rows.min(columns);
    let mut packed = Columns::load(matrix, rows, 1.0);
    let scales = triangularize(&mut packed);
    for (row, line) in triangular.chunks_exact_mut(columns).enumerate() {
        for (column, element) in line.iter_mut().enumerate() {
            *element = if row <= column {
                T::from_f64(packed.column(column)[row])
            } else {
                T::ZERO
            };
        }
    }
    let mut result = Columns::identity(rows, count);
    multiply(&packed, &scales, 0, &mut result);
    let order: Vec<usize> = (0..count).collect();
    result.store(&order, orthogonal);
}

/// Returns orthonormal columns that are orthogonal to `columns`, which are orthonormal. There are `count` columns in all.
pub(crate) fn complement(mut columns: Columns, count: usize) -> Columns {
    let known = columns.count();
    let scales = triangularize(&mut columns);
    let mut result = Columns::identity(columns.rows, count);
    multiply(&columns, &scales, 0, &mut result);
    result.elements.drain(..known * columns.rows);
    result
}
