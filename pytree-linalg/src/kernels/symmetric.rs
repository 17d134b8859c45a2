//! Eigenvalues and eigenvectors of a symmetric matrix: reduction to a tridiagonal matrix by reflections, then the QL
//! algorithm with implicit shifts (EISPACK's `tred2` and `imtql2`, LAPACK's `dsytd2` and `dsteqr`).

use crate::kernels::columns::{Columns, add_multiple, are_finite, dot, rotate, unit_of};
use crate::kernels::real::Real;
use crate::kernels::reflections::{multiply, reflect};
use pytree_transform::extend::share;

/// The greatest number of iterations, for each row of the matrix. LAPACK has the same limit, which no known matrix
/// reaches.
const ITERATIONS: usize = 30;

/// The number of rows of eigenvectors to which a list of rotations is applied at once. They fit the cache.
const PANEL: usize = 32;

/// The number of rotations after which they are applied. This bounds the memory for them.
const ROTATIONS: usize = 1 << 16;

/// A rotation of the columns `column` and `column + 1`.
struct Rotation {
    column: usize,
    cosine: f64,
    sine: f64,
}

/// A symmetric tridiagonal matrix.
struct Tridiagonal {
    diagonal: Vec<f64>,
    /// The elements below the diagonal. The last one is 0 and belongs to no row.
    below: Vec<f64>,
}

/// Computes the eigenvalues of a symmetric matrix in ascending order, and its eigenvectors as columns. Reads the lower
/// triangle. Writes NaN if an element is not finite.
pub(crate) fn eigh<T: Real>(matrix: &[T], size: usize, values: &mut [T], vectors: &mut [T]) {
    let lower = (0..size).flat_map(|row| &matrix[row * size..][..=row]);
    let unit = unit_of(lower.map(|element| element.to_f64()));
    let lower = Columns::load(matrix, size, unit);
    let is_finite = (0..size).all(|column| are_finite(&lower.column(column)[column..]));
    let Some((found, columns)) = is_finite.then(|| eigen(lower)).flatten() else {
        values.fill(T::NAN);
        return vectors.fill(T::NAN);
    };
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&left, &right| found[left].total_cmp(&found[right]));
    for (value, &position) in values.iter_mut().zip(&order) {
        *value = T::from_f64(found[position] * unit);
    }
    columns.store(&order, vectors);
}

/// Returns the eigenvalues in any order, and the eigenvectors. Reads the lower triangle of the matrix, whose elements are
/// finite and below 2. Returns `None` if the iteration does not converge.
pub(crate) fn eigen(mut matrix: Columns) -> Option<(Vec<f64>, Columns)> {
    let size = matrix.rows;
    let (mut tridiagonal, scales) = tridiagonalize(&mut matrix);
    let mut vectors = Columns::identity(size, size);
    multiply(&matrix, &scales, 1, &mut vectors);
    let mut vectors = Panels::new(&vectors);
    let mut rotations = Vec::new();
    for first in 0..size {
        tridiagonal.separate(first, &mut rotations)?;
        if rotations.len() >= ROTATIONS {
            vectors.rotate(&rotations);
            rotations.clear();
        }
    }
    vectors.rotate(&rotations);
    Some((tridiagonal.diagonal, vectors.into_columns()))
}

/// Reduces a symmetric matrix, whose lower triangle is read, to a tridiagonal matrix by reflections. Returns their τ.
/// The reflections replace the elements below the subdiagonal.
fn tridiagonalize(matrix: &mut Columns) -> (Tridiagonal, Vec<f64>) {
    let size = matrix.rows;
    let mut diagonal = vec![0.0; size];
    let mut below = vec![0.0; size];
    let mut scales = vec![0.0; size - 1];
    for (step, on_diagonal) in diagonal.iter_mut().enumerate() {
        let (left, rest) = matrix.split_at_mut(step + 1);
        let column = &mut left[step * size..][step..];
        *on_diagonal = column[0];
        let column = &mut column[1..];
        if column.is_empty() {
            break;
        }
        let scale = reflect(column);
        (below[step], scales[step]) = (column[0], scale);
        if scale == 0.0 {
            continue;
        }
        // The remaining matrix A becomes A - v wᵀ - w vᵀ with p = τ A v and w = p - τ/2 (pᵀ v) v.
        let reflection = [&[1.0], &column[1..]].concat();
        let columns = || (step + 1..).take(reflection.len()).enumerate();
        let mut w = vec![0.0; reflection.len()];
        for (position, row) in columns() {
            let column = &rest[position * size..][row..size];
            let of_column = &reflection[position + 1..];
            w[position] += column[0] * reflection[position] + dot(&column[1..], of_column);
            add_multiple(&mut w[position + 1..], reflection[position], &column[1..]);
        }
        w.iter_mut().for_each(|element| *element *= scale);
        let half = -0.5 * scale * dot(&w, &reflection);
        add_multiple(&mut w, half, &reflection);
        for (position, row) in columns() {
            let column = &mut rest[position * size..][row..size];
            add_multiple(column, -reflection[position], &w[position..]);
            add_multiple(column, -w[position], &reflection[position..]);
        }
    }
    (Tridiagonal { diagonal, below }, scales)
}

impl Tridiagonal {
    /// Makes `diagonal[first]` an eigenvalue by rotations of the rows from `first` on, where the rows before have been
    /// separated. Returns `None` if that takes too many iterations.
    fn separate(&mut self, first: usize, rotations: &mut Vec<Rotation>) -> Option<()> {
        for _ in 0..ITERATIONS * self.diagonal.len().max(10) {
            let last = self.end_of_block(first);
            if last == first {
                return Some(());
            }
            self.sweep(first, last, rotations);
        }
        None
    }

    /// Returns the last row of the block that begins at row `first`: the element below its diagonal is negligible.
    fn end_of_block(&self, first: usize) -> usize {
        let Self { diagonal, below } = self;
        let rows = first..diagonal.len() - 1;
        rows.clone()
            .find(|&row| {
                let neighbours = diagonal[row].abs() + diagonal[row + 1].abs();
                // The square of a smaller number underflows. The matrix has elements near 1, or is zero.
                let negligible = (f64::EPSILON * neighbours).max(f64::MIN_POSITIVE.sqrt());
                below[row].abs() <= negligible
            })
            .unwrap_or(rows.end)
    }

    /// Does one iteration on the rows from `first` to `last`: a step of the QL algorithm with the shift of Wilkinson.
    fn sweep(&mut self, first: usize, last: usize, rotations: &mut Vec<Rotation>) {
        let Self { diagonal, below } = self;
        let quotient = (diagonal[first + 1] - diagonal[first]) / (2.0 * below[first]);
        let root = quotient.hypot(1.0).copysign(quotient);
        let mut g = diagonal[last] - diagonal[first] + below[first] / (quotient + root);
        let (mut cosine, mut sine, mut shift) = (1.0, 1.0, 0.0);
        for row in (first..last).rev() {
            let f = sine * below[row];
            let b = cosine * below[row];
            let radius = f.hypot(g);
            below[row + 1] = radius;
            if radius == 0.0 {
                // The matrix has split here. The next iteration finds the smaller block.
                diagonal[row + 1] -= shift;
                below[last] = 0.0;
                return;
            }
            (sine, cosine) = (f / radius, g / radius);
            g = diagonal[row + 1] - shift;
            let turned = (diagonal[row] - g) * sine + 2.0 * cosine * b;
            shift = sine * turned;
            diagonal[row + 1] = g + shift;
            g = cosine * turned - b;
            let column = row;
            rotations.push(Rotation {
                column,
                cosine,
                sine,
            });
        }
        diagonal[first] -= shift;
        below[first] = g;
        below[last] = 0.0;
    }
}

/// A matrix in panels of at most [`PANEL`] rows, in column-major order. Threads rotate different panels.
struct Panels {
    rows: usize,
    panels: Vec<Columns>,
}

impl Panels {
    fn new(matrix: &Columns) -> Self {
        let panels = (0..matrix.rows).step_by(PANEL).map(|start| {
            let rows = PANEL.min(matrix.rows - start);
            let columns = matrix.elements.chunks_exact(matrix.rows);
            let elements = columns.flat_map(|column| &column[start..][..rows]);
            Columns {
                rows,
                elements: elements.copied().collect(),
            }
        });
        Self {
            rows: matrix.rows,
            panels: panels.collect(),
        }
    }

    fn rotate(&mut self, rotations: &[Rotation]) {
        // A rotation of two elements takes about a nanosecond.
        let nanoseconds = rotations.len() * self.rows;
        share(nanoseconds, self.panels.iter_mut().collect(), |panel| {
            for rotation in rotations {
                let [x, y] = panel.pair_mut(rotation.column, rotation.column + 1);
                rotate(x, y, rotation.cosine, rotation.sine);
            }
        });
    }

    fn into_columns(self) -> Columns {
        let columns = self.panels.first().map_or(0, Columns::count);
        let mut elements = Vec::with_capacity(self.rows * columns);
        for column in 0..columns {
            for panel in &self.panels {
                elements.extend_from_slice(panel.column(column));
            }
        }
        Columns {
            rows: self.rows,
            elements,
        }
    }
}
