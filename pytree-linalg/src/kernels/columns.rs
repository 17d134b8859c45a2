//! Columns of f64, on which the orthogonal factorizations compute. A matrix is a list of its columns, in one array.

use crate::kernels::real::Real;

/// Writes columns with `rows` rows to a matrix in row-major order.
pub(crate) fn store<T: Real>(columns: &[f64], rows: usize, target: &mut [T]) {
    let count = columns.len() / rows;
    for (row, line) in target.chunks_exact_mut(count).enumerate() {
        for (element, &found) in line.iter_mut().zip(columns[row..].iter().step_by(rows)) {
            *element = T::from_f64(found);
        }
    }
}

/// Returns the power of two below the greatest absolute value, or the least normal number. A matrix that is divided by
/// it has the same digits, and elements below 2. NaN is ignored.
pub(crate) fn unit_of(elements: impl Iterator<Item = f64>) -> f64 {
    let greatest = elements.fold(f64::MIN_POSITIVE, |greatest, x| greatest.max(x.abs()));
    f64::from_bits(greatest.to_bits() & f64::INFINITY.to_bits())
}

/// Returns the scalar product of two columns of the same length.
pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (mut lefts, mut rights) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    for (left, right) in lefts.by_ref().zip(rights.by_ref()) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += left * right;
        }
    }
    let rest = lefts.remainder().iter().zip(rights.remainder());
    let rest: f64 = rest.map(|(left, right)| left * right).sum();
    sums.iter().sum::<f64>() + rest
}

/// Adds a multiple of a column to another column.
pub(crate) fn add_multiple(target: &mut [f64], factor: f64, column: &[f64]) {
    for (target, element) in target.iter_mut().zip(column) {
        *target += factor * element;
    }
}
