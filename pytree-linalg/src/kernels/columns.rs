//! Matrices of f64 in column-major order, on which the orthogonal factorizations compute.
//!
//! The orthogonal factorizations compute in f64 also for matrices of f32. So the squares of elements of f32 neither
//! overflow nor underflow, and the only error of a result of f32 is almost always its last rounding.

use crate::kernels::real::Real;

/// A matrix in column-major order.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) rows: usize,
    pub(crate) elements: Vec<f64>,
}

impl Columns {
    /// Returns ones on the diagonal and zeros elsewhere.
    pub(crate) fn identity(rows: usize, columns: usize) -> Self {
        let mut elements = vec![0.0; rows * columns];
        for element in elements
            .iter_mut()
            .step_by(rows + 1)
            .take(rows.min(columns))
        {
            *element = 1.0;
        }
        Self { rows, elements }
    }

    /// Reads a matrix in row-major order, and divides its elements by `unit`.
    pub(crate) fn load<T: Real>(matrix: &[T], rows: usize, unit: f64) -> Self {
        let columns = matrix.len() / rows;
        let elements = (0..matrix.len())
            .map(|position| matrix[position % rows * columns + position / rows].to_f64() / unit)
            .collect();
        Self { rows, elements }
    }

    /// Writes the columns in the given order to a matrix in row-major order.
    pub(crate) fn store<T: Real>(&self, order: &[usize], target: &mut [T]) {
        for (row, line) in target.chunks_exact_mut(order.len()).enumerate() {
            for (element, &column) in line.iter_mut().zip(order) {
                *element = T::from_f64(self.column(column)[row]);
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.elements.len() / self.rows
    }

    pub(crate) fn column(&self, column: usize) -> &[f64] {
        &self.elements[column * self.rows..][..self.rows]
    }

    pub(crate) fn column_mut(&mut self, column: usize) -> &mut [f64] {
        &mut self.elements[column * self.rows..][..self.rows]
    }

    /// Returns the columns before `column`, and the columns from `column` on.
    pub(crate) fn split_at_mut(&mut self, column: usize) -> (&mut [f64], &mut [f64]) {
        self.elements.split_at_mut(column * self.rows)
    }

    /// Returns two columns. `first` is less than `second`.
    pub(crate) fn pair_mut(&mut self, first: usize, second: usize) -> [&mut [f64]; 2] {
        let rows = self.rows;
        let (left, right) = self.split_at_mut(second);
        [&mut left[first * rows..][..rows], &mut right[..rows]]
    }
}

/// Returns whether no element is NaN or infinite.
pub(crate) fn are_finite<T: Real>(elements: &[T]) -> bool {
    elements.iter().all(|element| element.to_f64().is_finite())
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

/// Replaces `x` and `y` by `cosine·x - sine·y` and `sine·x + cosine·y`.
pub(crate) fn rotate(x: &mut [f64], y: &mut [f64], cosine: f64, sine: f64) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}
