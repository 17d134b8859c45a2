//! Householder reflections, and the QR decomposition, which consists of them.
//!
//! The reflections are those of LAPACK (`dlarfg`, `dgeqrf`, `dorgqr`), so the signs of QR are those of JAX. That is why the loop
//! over a block of columns is here: faer's QR skips columns that depend on those before, so that the residual grows to 16 ulps
//! for each row, and `R` is another one than that of LAPACK. faer applies a block of reflections to the other columns.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch as sequence_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj as apply_sequence,
    apply_block_householder_transpose_on_the_left_in_place_with_conj as apply_transposed,
    upgrade_householder_factor,
};
use faer::{Conj, MatMut, MatRef, Par};

use crate::kernels::columns::{add_multiple, dot, store, unit_of};
use crate::kernels::memory::{buffer, filled};
use crate::kernels::real::Real;

/// The greatest number of columns whose reflections are applied one after the other.
const SMALL: usize = 48;

/// The number of reflections that are applied at once to a larger matrix.
const BLOCK: usize = 32;

/// Computes the reflection `I - τ v vᵀ` that maps a column to a multiple of the first unit vector. The first element of
/// `v` is 1. Replaces the first element by the multiple, and the others by those of `v`. Returns τ.
fn reflect(column: &mut [f64]) -> f64 {
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

/// Applies the reflection `I - τ v vᵀ`. `reflection` has the elements of `v` after the first one, which is 1.
fn apply(reflection: &[f64], scale: f64, column: &mut [f64]) {
    let projection = scale * (column[0] + dot(reflection, &column[1..]));
    column[0] -= projection;
    add_multiple(&mut column[1..], -projection, reflection);
}

/// Reduces columns from row `start` on to an upper triangle by reflections, which replace the elements below the diagonal.
/// Writes the τ of each.
fn triangularize(columns: &mut [f64], rows: usize, start: usize, scales: &mut [f64]) {
    for (step, scale) in scales.iter_mut().enumerate() {
        let (left, right) = columns.split_at_mut((step + 1) * rows);
        let column = &mut left[step * rows..][start + step..];
        *scale = reflect(column);
        for other in right.chunks_exact_mut(rows) {
            apply(&column[1..], *scale, &mut other[start + step..]);
        }
    }
}

/// Computes `A = Q R` of matrices with `rows` rows and `columns` columns.
pub(crate) struct Reflections {
    lengths: [usize; 2],
    packed: Vec<f64>,
    scales: Vec<f64>,
    orthogonal: Vec<f64>,
    /// The triangular factor of each block of reflections, whose diagonal has the 1/τ.
    factors: Vec<f64>,
    buffer: MemBuffer,
}

impl Reflections {
    pub(crate) fn new([rows, columns]: [usize; 2]) -> Self {
        let count = rows.min(columns);
        let is_small = count <= SMALL;
        let width = if is_small { 0 } else { columns };
        Self {
            lengths: [rows, columns],
            packed: filled(0.0, rows * columns),
            scales: vec![0.0; count],
            orthogonal: filled(0.0, rows * count),
            factors: filled(0.0, if is_small { 0 } else { BLOCK * count }),
            buffer: buffer(sequence_scratch::<f64>(rows, BLOCK, width)),
        }
    }

    /// Writes the factors of a matrix in row-major order. `Q` has min(`rows`, `columns`) columns, which are orthonormal. `R` is
    /// zero below the diagonal. NaN and infinities stay in the factors.
    pub(crate) fn compute<T: Real>(
        &mut self,
        matrix: &[T],
        orthogonal: &mut [T],
        triangular: &mut [T],
    ) {
        let [rows, columns] = self.lengths;
        for (column, target) in self.packed.chunks_exact_mut(rows).enumerate() {
            for (element, line) in target.iter_mut().zip(matrix.chunks_exact(columns)) {
                *element = line[column].to_f64();
            }
        }
        self.orthogonal.fill(0.0);
        let diagonal = self.orthogonal.iter_mut().step_by(rows + 1);
        diagonal.for_each(|element| *element = 1.0);
        if self.factors.is_empty() {
            triangularize(&mut self.packed, rows, 0, &mut self.scales);
            self.multiply();
        } else {
            self.triangularize_blocks();
            self.multiply_blocks();
        }
        for (row, line) in triangular.chunks_exact_mut(columns).enumerate() {
            for (column, element) in line.iter_mut().enumerate() {
                let found = self.packed[column * rows + row];
                *element = if row <= column {
                    T::from_f64(found)
                } else {
                    T::ZERO
                };
            }
        }
        store(&self.orthogonal, rows, orthogonal);
    }

    /// Applies the reflections to `Q`, which is zero below the ones on the diagonal.
    fn multiply(&mut self) {
        let rows = self.lengths[0];
        for (step, &scale) in self.scales.iter().enumerate().rev() {
            let reflection = &self.packed[step * rows..][step + 1..rows];
            for column in self.orthogonal.chunks_exact_mut(rows).skip(step) {
                apply(reflection, scale, &mut column[step..]);
            }
        }
    }

    fn triangularize_blocks(&mut self) {
        let rows = self.lengths[0];
        for (block, scales) in self.scales.chunks_mut(BLOCK).enumerate() {
            let (start, width) = (block * BLOCK, scales.len());
            let packed = &mut self.packed[start * rows..];
            let (panel, rest) = packed.split_at_mut(width * rows);
            triangularize(panel, rows, start, scales);
            let panel = MatRef::from_column_major_slice(panel, rows, width);
            let panel = panel.subrows(start, rows - start);
            let others = rest.len() / rows;
            let rest = MatMut::from_column_major_slice_mut(rest, rows, others);
            let factors = &mut self.factors[start * BLOCK..][..width * BLOCK];
            let factor = MatMut::from_column_major_slice_mut(factors, BLOCK, width);
            let mut factor = factor.subrows_mut(0, width);
            for (step, scale) in scales.iter().enumerate() {
                factor[(step, step)] = 1.0 / scale;
            }
            upgrade_householder_factor(factor.as_mut(), panel, width, 1, Par::Seq);
            let stack = MemStack::new(&mut self.buffer);
            let rest = rest.subrows_mut(start, rows - start);
            apply_transposed(panel, factor.as_ref(), Conj::No, rest, Par::Seq, stack);
        }
    }

    fn multiply_blocks(&mut self) {
        let (rows, count) = (self.lengths[0], self.scales.len());
        let packed = &self.packed[..rows * count];
        apply_sequence(
            MatRef::from_column_major_slice(packed, rows, count),
            MatRef::from_column_major_slice(&self.factors, BLOCK, count),
            Conj::No,
            MatMut::from_column_major_slice_mut(&mut self.orthogonal, rows, count),
            Par::Seq,
            MemStack::new(&mut self.buffer),
        );
    }
}
