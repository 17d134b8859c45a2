//! Orthogonal factorizations of one matrix: QR, eigenvalues of symmetric matrices, and singular values.

use nalgebra::{DMatrix, SVD, SymmetricEigen};

use super::matrix_kernels::{Real, Strides};

/// The greatest number of iterations of the algorithms for eigenvalues and singular values, for each row or column of
/// the matrix. LAPACK has the same limit. It also bounds the sweeps of the Jacobi method.
const ITERATIONS: usize = 30;

fn is_finite<T: Real>(elements: &[T]) -> bool {
    elements.iter().all(T::is_finite)
}

fn fill_with_nan<T: Real>(targets: &mut [&mut [T]]) {
    for target in targets {
        target.fill(nalgebra::convert(f64::NAN));
    }
}

/// Writes the columns of a matrix in the given order, in row-major order.
fn store_columns<T: Real>(matrix: &DMatrix<T>, order: &[usize], target: &mut [T]) {
    for (row, line) in target.chunks_exact_mut(order.len()).enumerate() {
        for (element, &column) in line.iter_mut().zip(order) {
            *element = matrix[(row, column)];
        }
    }
}

/// Computes `A = Q R` of a matrix in row-major order with `rows` rows and `columns` columns. `Q` has
/// min(`rows`, `columns`) columns, which are orthonormal. `R` is zero below the diagonal.
///
/// These are the Householder reflections of LAPACK (`dgeqr2`, `dlarfg`, `dorg2r`), so the signs are those of JAX. The QR
/// decomposition of `nalgebra` has other signs.
pub(super) fn qr<T: Real>(
    matrix: &[T],
    [rows, columns]: [usize; 2],
    orthogonal: &mut [T],
    triangular: &mut [T],
) {
    let count = rows.min(columns);
    let mut packed = DMatrix::from_row_slice(rows, columns, matrix);
    let mut scales = Vec::with_capacity(count);
    for step in 0..count {
        let (mut left, mut right) = packed.columns_range_pair_mut(step, step + 1..);
        let scale = reflect(&mut left.as_mut_slice()[step..]);
        let reflected = left.rows_range(step + 1..);
        for mut column in right.column_iter_mut() {
            let projection = scale * (column[step] + reflected.dot(&column.rows_range(step + 1..)));
            column[step] -= projection;
            let mut rest = column.rows_range_mut(step + 1..);
            rest.axpy(-projection, &reflected, T::one());
        }
        scales.push(scale);
    }
    for (row, line) in triangular.chunks_exact_mut(columns).enumerate() {
        for (column, element) in line.iter_mut().enumerate() {
            *element = if row <= column {
                packed[(row, column)]
            } else {
                T::zero()
            };
        }
    }
    let mut result = DMatrix::<T>::identity(rows, count);
    for (step, &scale) in scales.iter().enumerate().rev() {
        let reflected = packed.column(step);
        let reflected = reflected.rows_range(step + 1..);
        for mut column in result.columns_range_mut(step..).column_iter_mut() {
            let projection = scale * (column[step] + reflected.dot(&column.rows_range(step + 1..)));
            column[step] -= projection;
            let mut rest = column.rows_range_mut(step + 1..);
            rest.axpy(-projection, &reflected, T::one());
        }
    }
    Strides::row_major(count).store(&result, orthogonal);
}

/// Computes the reflection `I - τ v vᵀ` that maps a column to a multiple of the first unit vector. The first element of
/// `v` is 1. Replaces the first element by the multiple, and the others by those of `v`. Returns τ.
fn reflect<T: Real>(column: &mut [T]) -> T {
    let Some((head, tail)) = column.split_first_mut() else {
        return T::zero();
    };
    let largest = tail.iter().fold(T::zero(), |largest, element| {
        // The comparison is false for NaN, which must be kept.
        if element.abs() <= largest {
            largest
        } else {
            element.abs()
        }
    });
    if largest == T::zero() {
        return T::zero();
    }
    // The squares of the quotients neither overflow nor underflow together.
    let largest = if *head == T::zero() || head.abs() <= largest {
        largest
    } else {
        head.abs()
    };
    let squares = tail
        .iter()
        .chain([&*head])
        .fold(T::zero(), |sum, &element| {
            let quotient = element / largest;
            sum + quotient * quotient
        });
    let norm = largest * squares.sqrt();
    let target = if *head < T::zero() { norm } else { -norm };
    let scale = (target - *head) / target;
    let divisor = *head - target;
    for element in tail {
        *element /= divisor;
    }
    *head = target;
    scale
}

/// Computes the eigenvalues of a symmetric matrix in ascending order, and its eigenvectors as columns. Reads the lower
/// triangle. Writes NaN if an element is not finite.
pub(super) fn eigh<T: Real>(matrix: &[T], size: usize, values: &mut [T], vectors: &mut [T]) {
    let matrix = DMatrix::from_fn(size, size, |row, column| {
        matrix[row.max(column) * size + row.min(column)]
    });
    let limit = ITERATIONS * size.max(10);
    let found = is_finite(matrix.as_slice())
        .then(|| SymmetricEigen::try_new(matrix, T::default_epsilon(), limit));
    let Some(found) = found.flatten() else {
        return fill_with_nan(&mut [values, vectors]);
    };
    let order = sorted_by(size, |left, right| {
        found.eigenvalues[left].partial_cmp(&found.eigenvalues[right])
    });
    for (value, &position) in values.iter_mut().zip(&order) {
        *value = found.eigenvalues[position];
    }
    store_columns(&found.eigenvectors, &order, vectors);
}

fn sorted_by(
    count: usize,
    compare: impl Fn(usize, usize) -> Option<std::cmp::Ordering>,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&left, &right| compare(left, right).unwrap_or(std::cmp::Ordering::Equal));
    order
}

/// Computes `A = U diag(s) Vᵀ` of a matrix in row-major order. `s` is in descending order. `U` and `V` have
/// min(`rows`, `columns`) columns, which are orthonormal. Writes NaN if an element is not finite.
pub(super) fn svd<T: Real>(
    matrix: &[T],
    [rows, columns]: [usize; 2],
    left: &mut [T],
    values: &mut [T],
    right: &mut [T],
) {
    let is_wide = rows < columns;
    // A slice in row-major order is the transposed matrix in the order of `nalgebra`.
    let matrix = if is_wide {
        DMatrix::from_column_slice(columns, rows, matrix)
    } else {
        DMatrix::from_row_slice(rows, columns, matrix)
    };
    let Some(parts) = is_finite(matrix.as_slice())
        .then(|| tall_svd(matrix))
        .flatten()
    else {
        return fill_with_nan(&mut [left, values, right]);
    };
    let (u, v) = if is_wide {
        (&parts.v, &parts.u)
    } else {
        (&parts.u, &parts.v)
    };
    let order = sorted_by(values.len(), |left, right| {
        parts.values[right].partial_cmp(&parts.values[left])
    });
    for (value, &position) in values.iter_mut().zip(&order) {
        *value = parts.values[position];
    }
    store_columns(u, &order, left);
    for (line, &position) in right.chunks_exact_mut(columns).zip(&order) {
        line.copy_from_slice(v.column(position).as_slice());
    }
}

/// The singular values of a matrix, in any order, and the singular vectors as columns.
struct SingularParts<T: Real> {
    u: DMatrix<T>,
    values: Vec<T>,
    v: DMatrix<T>,
}

/// Decomposes a matrix with at least as many rows as columns. Returns `None` if the algorithm does not converge.
///
/// The singular values of `nalgebra` have errors of some hundred units in the last place. So its `V` is only the start
/// of the one-sided Jacobi method (Demmel and Veselić, "Jacobi's method is more accurate than QR", 1992), which ends
/// after one or two sweeps from there.
fn tall_svd<T: Real>(matrix: DMatrix<T>) -> Option<SingularParts<T>> {
    let largest = matrix.amax();
    let limit = ITERATIONS * matrix.nrows().max(10);
    let found = SVD::try_new_unordered(matrix.clone(), true, true, T::default_epsilon(), limit)?;
    let (mut u, mut v) = (found.u?, found.v_t?.transpose());
    if largest == T::zero() {
        let values = found.singular_values.iter().copied().collect();
        return Some(SingularParts { u, values, v });
    }
    // The squares of these elements do not overflow.
    let mut scaled = (matrix / largest) * &v;
    for _ in 0..ITERATIONS {
        if !rotate_columns(&mut scaled, &mut v) {
            break;
        }
    }
    let norms: Vec<T> = scaled.column_iter().map(|column| column.norm()).collect();
    for ((mut target, column), &norm) in u.column_iter_mut().zip(scaled.column_iter()).zip(&norms) {
        // A column of zeros has no direction, so that of `nalgebra` is kept.
        if norm > T::zero() {
            target.copy_from(&(column / norm));
        }
    }
    let values = norms.into_iter().map(|norm| norm * largest).collect();
    Some(SingularParts { u, values, v })
}

/// Rotates each pair of columns of `matrix` that is not orthogonal, and the columns of `v` by the same angle. Returns
/// whether there was such a pair.
fn rotate_columns<T: Real>(matrix: &mut DMatrix<T>, v: &mut DMatrix<T>) -> bool {
    let tolerance = T::default_epsilon() * nalgebra::convert(matrix.nrows() as f64);
    let mut squares: Vec<T> = matrix
        .column_iter()
        .map(|column| column.norm_squared())
        .collect();
    let mut is_rotated = false;
    for first in 0..squares.len() {
        for second in first + 1..squares.len() {
            let product = matrix.column(first).dot(&matrix.column(second));
            if product.abs() <= tolerance * (squares[first] * squares[second]).sqrt() {
                continue;
            }
            is_rotated = true;
            let quotient = (squares[second] - squares[first]) / (product + product);
            let root = (T::one() + quotient * quotient).sqrt();
            let tangent = if quotient < T::zero() {
                -T::one() / (root - quotient)
            } else {
                T::one() / (root + quotient)
            };
            let cosine = T::one() / (T::one() + tangent * tangent).sqrt();
            for columns in [&mut *matrix, &mut *v] {
                for row in 0..columns.nrows() {
                    let (x, y) = (columns[(row, first)], columns[(row, second)]);
                    columns[(row, first)] = cosine * (x - tangent * y);
                    columns[(row, second)] = cosine * (y + tangent * x);
                }
            }
            for column in [first, second] {
                squares[column] = matrix.column(column).norm_squared();
            }
        }
    }
    is_rotated
}
