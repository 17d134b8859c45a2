//! Eigenvalues of symmetric matrices, and singular values: the algorithms of faer, which reduce a matrix to two diagonals by
//! reflections. For singular values, these are never divided: where singular values fall by 308 orders of magnitude, faer's
//! divide-and-conquer algorithm returns vectors that are not orthogonal. The QR algorithm takes 1.3 times as long for random matrices
//! of 300 or 600 rows, and twice as long for 1,000 rows; it takes no longer for the others.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::svd::{ComputeSvdVectors, SvdParams, svd, svd_scratch};
use faer::{Auto, ColMut, MatMut, MatRef, Par, Spec};

use crate::kernels::columns::{store, unit_of};
use crate::kernels::memory::{buffer, filled};
use crate::kernels::real::Real;

/// The iteration for eigenvalues or singular values of a matrix of finite numbers has ended before they were exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotConverged;

/// Computes the eigenvalues and eigenvectors of symmetric matrices with one number of rows.
pub(crate) struct Eigen {
    size: usize,
    buffer: MemBuffer,
    scaled: Vec<f64>,
    values: Vec<f64>,
    vectors: Vec<f64>,
}

impl Eigen {
    pub(crate) fn new(size: usize) -> Self {
        let vectors = ComputeEigenvectors::Yes;
        let request = self_adjoint_evd_scratch::<f64>(size, vectors, Par::Seq, Spec::default());
        Self {
            size,
            buffer: buffer(request),
            scaled: filled(0.0, size * size),
            values: vec![0.0; size],
            vectors: filled(0.0, size * size),
        }
    }

    /// Writes the eigenvalues of a matrix in ascending order, and its eigenvectors as columns. Reads the lower triangle. Writes
    /// NaN if an element is not finite.
    pub(crate) fn compute<T: Real>(
        &mut self,
        matrix: &[T],
        values: &mut [T],
        vectors: &mut [T],
    ) -> Result<(), NotConverged> {
        let size = self.size;
        let lower = || (0..size).flat_map(|row| &matrix[row * size..][..=row]);
        if !are_finite(lower()) {
            values.fill(T::NAN);
            vectors.fill(T::NAN);
            return Ok(());
        }
        let mut scaled = std::mem::take(&mut self.scaled);
        let unit = scale(matrix, lower(), &mut scaled);
        let done = self.decompose_scaled(&scaled);
        self.scaled = scaled;
        done?;
        for (value, &found) in values.iter_mut().zip(&self.values) {
            *value = T::from_f64(found * unit);
        }
        store(&self.vectors, size, vectors);
        Ok(())
    }

    /// Computes the factors of a matrix in row-major order whose elements are below 2.
    pub(crate) fn decompose_scaled(&mut self, matrix: &[f64]) -> Result<(), NotConverged> {
        let size = self.size;
        let done = self_adjoint_evd(
            MatRef::from_row_major_slice(matrix, size, size),
            ColMut::from_slice_mut(&mut self.values).as_diagonal_mut(),
            Some(MatMut::from_column_major_slice_mut(
                &mut self.vectors,
                size,
                size,
            )),
            Par::Seq,
            MemStack::new(&mut self.buffer),
            Spec::default(),
        );
        converged(done.is_ok(), &self.values)
    }
}

/// Computes the singular value decomposition of matrices with one shape.
pub(crate) struct Singular {
    lengths: [usize; 2],
    buffer: MemBuffer,
    scaled: Vec<f64>,
    left: Vec<f64>,
    values: Vec<f64>,
    right: Vec<f64>,
}

impl Singular {
    pub(crate) fn new([rows, columns]: [usize; 2]) -> Self {
        let thin = ComputeSvdVectors::Thin;
        let request = svd_scratch::<f64>(rows, columns, thin, thin, Par::Seq, without_division());
        let count = rows.min(columns);
        Self {
            lengths: [rows, columns],
            buffer: buffer(request),
            scaled: filled(0.0, rows * columns),
            left: filled(0.0, rows * count),
            values: vec![0.0; count],
            right: filled(0.0, columns * count),
        }
    }

    /// Writes `U`, `s` and `Vᵀ` of `A = U diag(s) Vᵀ`. `s` is in descending order. `U` and `V` have min(`rows`, `columns`)
    /// columns, which are orthonormal. Writes NaN if an element is not finite.
    pub(crate) fn compute<T: Real>(
        &mut self,
        matrix: &[T],
        left: &mut [T],
        values: &mut [T],
        right: &mut [T],
    ) -> Result<(), NotConverged> {
        if !are_finite(matrix.iter()) {
            for target in [left, values, right] {
                target.fill(T::NAN);
            }
            return Ok(());
        }
        let mut scaled = std::mem::take(&mut self.scaled);
        let unit = scale(matrix, matrix.iter(), &mut scaled);
        let done = self.decompose_scaled(&scaled);
        self.scaled = scaled;
        done?;
        for (value, &found) in values.iter_mut().zip(&self.values) {
            *value = T::from_f64(found * unit);
        }
        store(&self.left, self.lengths[0], left);
        // The columns of `V` are the rows of `Vᵀ`.
        for (element, &found) in right.iter_mut().zip(&self.right) {
            *element = T::from_f64(found);
        }
        Ok(())
    }

    /// Computes the factors of a matrix in row-major order whose elements are below 2.
    pub(crate) fn decompose_scaled(&mut self, matrix: &[f64]) -> Result<(), NotConverged> {
        let [rows, columns] = self.lengths;
        let count = self.values.len();
        let done = svd(
            MatRef::from_row_major_slice(matrix, rows, columns),
            ColMut::from_slice_mut(&mut self.values).as_diagonal_mut(),
            Some(MatMut::from_column_major_slice_mut(
                &mut self.left,
                rows,
                count,
            )),
            Some(MatMut::from_column_major_slice_mut(
                &mut self.right,
                columns,
                count,
            )),
            Par::Seq,
            MemStack::new(&mut self.buffer),
            without_division(),
        );
        converged(done.is_ok(), &self.values)
    }
}

fn converged(is_done: bool, values: &[f64]) -> Result<(), NotConverged> {
    if is_done && values.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    Err(NotConverged)
}

/// Returns the settings with which the QR algorithm computes all singular values.
fn without_division() -> Spec<SvdParams, f64> {
    let mut settings = <SvdParams as Auto<f64>>::auto();
    settings.recursion_threshold = usize::MAX;
    settings.into()
}

fn are_finite<'a, T: Real>(mut elements: impl Iterator<Item = &'a T>) -> bool {
    elements.all(|element| element.to_f64().is_finite())
}

/// Divides a matrix by the unit of the elements that are read, and returns the unit.
fn scale<'a, T: Real>(matrix: &[T], read: impl Iterator<Item = &'a T>, scaled: &mut [f64]) -> f64 {
    let unit = unit_of(read.map(|element| element.to_f64()));
    for (target, element) in scaled.iter_mut().zip(matrix) {
        *target = element.to_f64() / unit;
    }
    unit
}
