//! The singular value decomposition: the one-sided Jacobi method (Demmel and Veselić, "Jacobi's method is more accurate
//! than QR", 1992; LAPACK's `dgesvj`).
//!
//! Rotations make the columns of `A V` orthogonal, so that their norms are the singular values. The method converges for
//! each matrix, but slowly. So it begins with the eigenvectors of `Aᵀ A` for `V`, from which few sweeps remain. Their
//! errors do not matter, because each rotation depends on the columns as they are.

use crate::kernels::columns::{Columns, are_finite, dot, rotate, unit_of};
use crate::kernels::real::Real;
use crate::kernels::reflections::complement;
use crate::kernels::symmetric::eigen;
use pytree_transform::extend::{Strides, matrix_product};

/// The greatest number of sweeps over all pairs of columns. The convergence is quadratic; ten sweeps are many.
const SWEEPS: usize = 40;

/// Columns below this norm have no direction: the sum of their squares underflows. The greatest column has a norm above
/// 1.
const NEGLIGIBLE: f64 = 1e-140;

/// Computes `A = U diag(s) Vᵀ` of a matrix in row-major order. `s` is in descending order. `U` and `V` have
/// min(`rows`, `columns`) columns, which are orthonormal. Writes NaN if an element is not finite.
pub(crate) fn svd<T: Real>(
    matrix: &[T],
    [rows, columns]: [usize; 2],
    left: &mut [T],
    values: &mut [T],
    right: &mut [T],
) {
    if !are_finite(matrix) {
        for target in [left, values, right] {
            target.fill(T::NAN);
        }
        return;
    }
    let unit = unit_of(matrix.iter().map(|element| element.to_f64()));
    let is_wide = rows < columns;
    let tall = if is_wide {
        // A matrix in row-major order is the transposed one in column-major order.
        let elements = matrix.iter().map(|element| element.to_f64() / unit);
        Columns {
            rows: columns,
            elements: elements.collect(),
        }
    } else {
        Columns::load(matrix, rows, unit)
    };
    let parts = decompose(&tall);
    let (u, v) = if is_wide {
        (&parts.v, &parts.u)
    } else {
        (&parts.u, &parts.v)
    };
    for (value, &found) in values.iter_mut().zip(&parts.values) {
        *value = T::from_f64(found * unit);
    }
    let order: Vec<usize> = (0..values.len()).collect();
    u.store(&order, left);
    for (line, column) in right.chunks_exact_mut(columns).zip(0..) {
        for (element, &found) in line.iter_mut().zip(v.column(column)) {
            *element = T::from_f64(found);
        }
    }
}

struct SingularParts {
    u: Columns,
    /// In descending order.
    values: Vec<f64>,
    v: Columns,
}

/// Decomposes a matrix with at least as many rows as columns, whose greatest element is from 1 to 2.
fn decompose(matrix: &Columns) -> SingularParts {
    let (rows, count) = (matrix.rows, matrix.count());
    let by_column = Strides::row_major(rows);
    let transposed = (&matrix.elements[..], by_column);
    // In row-major order, which for a symmetric matrix is the same as column-major order.
    let mut gram = Columns {
        rows: count,
        elements: vec![0.0; count * count],
    };
    let by_row = (&matrix.elements[..], by_column.transposed());
    matrix_product([count, count, rows], transposed, by_row, &mut gram.elements);
    let mut v = Columns::identity(count, count);
    if let Some((squares, vectors)) = eigen(gram) {
        v = sorted(&vectors, &descending(&squares));
    }
    let mut scaled = Columns {
        rows,
        elements: vec![0.0; count * rows],
    };
    let vectors = (&v.elements[..], Strides::row_major(count));
    matrix_product(
        [count, rows, count],
        vectors,
        transposed,
        &mut scaled.elements,
    );
    for _ in 0..SWEEPS {
        if !rotate_columns(&mut scaled, &mut v) {
            break;
        }
    }
    let norms: Vec<f64> = scaled
        .elements
        .chunks_exact(rows)
        .map(|column| {
            let unit = unit_of(column.iter().copied());
            let squares = column.iter().map(|x| (x / unit) * (x / unit));
            unit * squares.sum::<f64>().sqrt()
        })
        .collect();
    let order = descending(&norms);
    let values: Vec<f64> = order.iter().map(|&position| norms[position]).collect();
    let mut u = sorted(&scaled, &order);
    let known = values.partition_point(|&value| value > NEGLIGIBLE);
    for (column, value) in u.elements.chunks_exact_mut(rows).zip(&values[..known]) {
        column.iter_mut().for_each(|element| *element /= value);
    }
    if known < count {
        u.elements.truncate(known * rows);
        let others = complement(u.clone(), count);
        u.elements.extend_from_slice(&others.elements);
    }
    SingularParts {
        u,
        values,
        v: sorted(&v, &order),
    }
}

/// Returns the positions of numbers in descending order.
fn descending(numbers: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&left, &right| numbers[right].total_cmp(&numbers[left]));
    order
}

fn sorted(columns: &Columns, order: &[usize]) -> Columns {
    let elements = order.iter().flat_map(|&column| columns.column(column));
    Columns {
        rows: columns.rows,
        elements: elements.copied().collect(),
    }
}

/// Rotates each pair of columns of `matrix` that is not orthogonal, and the columns of `v` by the same angle. Returns
/// whether there was such a pair.
fn rotate_columns(matrix: &mut Columns, v: &mut Columns) -> bool {
    // A smaller product is a rounding error of its sum.
    let tolerance = f64::EPSILON * (matrix.rows as f64).sqrt().max(4.0);
    let square = |column: &[f64]| dot(column, column);
    let mut norms: Vec<f64> = matrix
        .elements
        .chunks_exact(matrix.rows)
        .map(|column| square(column).sqrt())
        .collect();
    let mut is_rotated = false;
    for first in 0..norms.len() {
        for second in first + 1..norms.len() {
            let [x, y] = matrix.pair_mut(first, second);
            let (of_x, of_y) = (norms[first], norms[second]);
            let product = dot(x, y);
            if product.abs() <= tolerance * of_x * of_y || of_x.min(of_y) <= NEGLIGIBLE {
                continue;
            }
            is_rotated = true;
            let quotient = (of_y - of_x) * (of_y + of_x) / (2.0 * product);
            let tangent = 1.0 / (quotient + quotient.hypot(1.0).copysign(quotient));
            let cosine = 1.0 / tangent.hypot(1.0);
            let sine = cosine * tangent;
            rotate(x, y, cosine, sine);
            (norms[first], norms[second]) = (square(x).sqrt(), square(y).sqrt());
            let [x, y] = v.pair_mut(first, second);
            rotate(x, y, cosine, sine);
        }
    }
    is_rotated
}
