//! Diagonals and triangles of matrices, and matrices built from diagonals.

use pytree_base::bug::expect_some;
use pytree_derive::panicking_twin;
use pytree_kernels::base::array::fits_memory;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::{AxisList, PerAxis};
use pytree_kernels::loops::elementwise::Comparison;

use crate::base::error::{TensorError, called};
use crate::operations::axes::axis_of;
use crate::operations::fused::try_fused;
use crate::operations::reduce::sum_over;
use crate::primitives::create::{self, broadcast_in_dim};
use crate::primitives::elementwise::compare;
use crate::primitives::select::select;
use crate::primitives::shape::{reshape, transpose};
use crate::primitives::slice::{pad, slice};
use crate::tensor::Tensor;

/// Returns the diagonal of the last two axes that is `offset` columns to the right of the main diagonal. The elements
/// of a diagonal are `columns + 1` positions apart in row-major order, so a strided slice selects them.
#[track_caller]
pub(super) fn diagonal_of_last(tensor: &Tensor, offset: isize) -> Result<Tensor, TensorError> {
    let (before, matrix) = tensor.shape().split_at(tensor.rank() - 2);
    let (rows, columns) = (matrix[0], matrix[1]);
    let (down, right) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
    let count = rows.saturating_sub(down).min(columns.saturating_sub(right));
    let flat = reshape(tensor, &[before, &[rows * columns]].concat())?;
    let axis = before.len();
    let mut start: PerAxis = before.iter().map(|_| 0).collect();
    let mut limit = PerAxis::from_slice(flat.shape());
    let mut stride: PerAxis = before.iter().map(|_| 1).collect();
    let first = if count == 0 {
        0
    } else {
        down * columns + right
    };
    start.push(first);
    limit[axis] = match count {
        0 => 0,
        count => first + (count - 1) * (columns + 1) + 1,
    };
    stride.push(columns + 1);
    slice(&flat, &start, &limit, &stride)
}

fn needs_matrix(operation: &'static str, tensor: &Tensor) -> Result<(), TensorError> {
    if tensor.rank() >= 2 {
        return Ok(());
    }
    Err(TensorError::shape(
        operation,
        &[tensor.info()],
        format!(
            "the tensor has {} axes, but a matrix has 2 or more",
            tensor.rank()
        ),
        "add axes with `expand_dims`, or build a matrix from its diagonal with `diag`",
    ))
}

/// Returns the tensor with zeros outside of a triangle. `comparison` of `column` with `row + offset` is true inside of
/// the triangle.
#[track_caller]
fn triangle(
    operation: &'static str,
    tensor: &Tensor,
    comparison: Comparison,
    offset: isize,
) -> Result<Tensor, TensorError> {
    let _called = called(operation);
    needs_matrix(operation, tensor)?;
    let axes: AxisList = (tensor.rank() - 2..tensor.rank()).collect();
    let matrix = &tensor.shape()[tensor.rank() - 2..];
    // Every offset beyond a corner selects the same triangle as the corner. The clamp prevents an overflow.
    let offset = offset.clamp(-matrix[0].cast_signed(), matrix[1].cast_signed());
    let offset = expect_some(i64::try_from(offset).ok(), "an offset that fits into i64");
    let offset = Tensor::scalar(offset);
    try_fused(&[tensor], || {
        let rows = create::iota(DType::I64, &[matrix[0], 1], 0)?.try_add(&offset)?;
        let columns = create::iota(DType::I64, &[1, matrix[1]], 1)?;
        let kept = compare(comparison, &columns, &rows)?;
        let kept = broadcast_in_dim(&kept, tensor.shape(), &axes)?;
        let zeros = create::full(tensor.dtype(), tensor.shape(), 0.0)?;
        select(&kept, tensor, &zeros)
    })
}

impl Tensor {
    /// Returns the lower triangle of the last two axes. The elements above the triangle are zeros.
    ///
    /// A positive `offset` also keeps the `offset` diagonals above the main diagonal. A negative `offset` replaces the
    /// main diagonal and the diagonals directly below it by zeros, `-offset` diagonals in total.
    ///
    /// # Panics
    /// Panics if there are fewer than two axes.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).tril(0), Tensor::from([[1, 0], [3, 4]]));
    /// ```
    #[doc(alias("jnp.tril", "torch.tril"))]
    #[panicking_twin(tril, Shape)]
    pub fn try_tril(&self, offset: isize) -> Result<Self, TensorError> {
        triangle("take the lower triangle of", self, Comparison::Le, offset)
    }

    /// Returns the upper triangle of the last two axes. The elements below the triangle are zeros.
    ///
    /// A negative `offset` also keeps the `-offset` diagonals below the main diagonal. A positive `offset` replaces the
    /// main diagonal and the diagonals directly above it by zeros, `offset` diagonals in total.
    ///
    /// # Panics
    /// Panics if there are fewer than two axes.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).triu(1), Tensor::from([[0, 2], [0, 0]]));
    /// ```
    #[doc(alias("jnp.triu", "torch.triu"))]
    #[panicking_twin(triu, Shape)]
    pub fn try_triu(&self, offset: isize) -> Result<Self, TensorError> {
        triangle("take the upper triangle of", self, Comparison::Ge, offset)
    }

    /// Returns the diagonal of two axes that is `offset` columns to the right of the main diagonal. The two axes are
    /// removed, and the diagonal is the last axis of the result.
    ///
    /// # Panics
    /// Panics if an axis is out of range, or if both axes are the same.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.diagonal(0, 0, 1), Tensor::from([1, 5]));
    /// assert_eq!(x.diagonal(1, 0, 1), Tensor::from([2, 6]));
    /// ```
    #[doc(alias("jnp.diagonal", "torch.diagonal"))]
    #[panicking_twin(diagonal, Axis | Shape)]
    pub fn try_diagonal(
        &self,
        offset: isize,
        axis1: isize,
        axis2: isize,
    ) -> Result<Self, TensorError> {
        let operation = "take the diagonal of";
        let first = axis_of(operation, self.info(), axis1)?;
        let second = axis_of(operation, self.info(), axis2)?;
        if first == second {
            return Err(TensorError::shape(
                operation,
                &[self.info()],
                format!("axis {first} is given twice"),
                "give two different axes",
            ));
        }
        let rest = (0..self.rank()).filter(|axis| ![first, second].contains(axis));
        let order: AxisList = rest.chain([first, second]).collect();
        diagonal_of_last(&transpose(self, &order)?, offset)
    }

    /// Returns the sum of the main diagonal of the first two axes. These axes are removed.
    ///
    /// # Panics
    /// Panics if there are fewer than two axes, or if the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).trace(), Tensor::from(5));
    /// ```
    #[doc(alias("jnp.trace", "torch.trace"))]
    #[panicking_twin(trace, Shape | DType)]
    pub fn try_trace(&self) -> Result<Self, TensorError> {
        let _called = called("take the trace of");
        needs_matrix("take the trace of", self)?;
        let diagonal = self.try_diagonal(0, 0, 1)?;
        sum_over(&diagonal, &[diagonal.rank() - 1])
    }

    /// Returns a matrix with the elements of this vector on a diagonal and zeros elsewhere. The diagonal is `offset`
    /// columns to the right of the main diagonal.
    ///
    /// The shape `[n]` becomes `[n + |offset|, n + |offset|]`. The inverse is [`diagonal`](Self::diagonal).
    ///
    /// # Panics
    /// Panics unless the tensor has exactly one axis.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).diag(0), Tensor::from([[1, 0], [0, 2]]));
    /// assert_eq!(Tensor::from([1]).diag(-1), Tensor::from([[0, 0], [1, 0]]));
    /// ```
    #[doc(alias("jnp.diag", "torch.diag"))]
    #[panicking_twin(diag, Shape)]
    pub fn try_diag(&self, offset: isize) -> Result<Self, TensorError> {
        if self.rank() != 1 {
            return Err(TensorError::shape(
                "diag",
                &[self.info()],
                format!("the tensor has {} axes, expected 1", self.rank()),
                "flatten the tensor, or read the diagonal of a matrix with `diagonal`",
            ));
        }
        let count = self.len();
        let side = count.saturating_add(offset.unsigned_abs());
        let result = AbstractArray::new(self.dtype(), [side, side]);
        if !fits_memory(&result) {
            return Err(TensorError::too_large("diag", &result));
        }
        let (down, right) = ((-offset).max(0), offset.max(0));
        let _called = called("diag");
        // In row-major order, neighbouring elements of the diagonal are `side + 1` positions apart, with `side` zeros
        // between them.
        let first = down * side.cast_signed() + right;
        let last = first + ((side + 1) * count).cast_signed() - side.cast_signed();
        let behind = (side * side).cast_signed() - last;
        let zero = Self::constant(self.dtype(), 0.0);
        if count == 0 {
            return create::full(self.dtype(), &[side, side], 0.0);
        }
        let flat = pad(self, &zero, &[first], &[behind], &[side])?;
        reshape(&flat, &[side, side])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagonal_matches_definition() {
        for (rows, columns) in [(3, 3), (2, 4), (4, 2), (1, 1), (0, 2), (2, 0)] {
            let x = Tensor::arange(DType::I32, rows * columns).reshape([rows, columns]);
            for offset in -5_isize..=5 {
                let expected: Vec<i32> = (0..rows)
                    .flat_map(|row| (0..columns).map(move |column| (row, column)))
                    .filter(|(row, column)| column.cast_signed() - row.cast_signed() == offset)
                    .map(|(row, column)| i32::try_from(row * columns + column).unwrap())
                    .collect();
                let diagonal = x.diagonal(offset, 0, 1);
                assert_eq!(
                    diagonal.to_vec::<i32>(),
                    expected,
                    "{rows} × {columns}, {offset}"
                );
                let turned = x.diagonal(-offset, 1, 0);
                assert_eq!(turned, diagonal);
                let matrix = diagonal.diag(offset);
                assert_eq!(matrix.diagonal(offset, 0, 1), diagonal);
                assert_eq!(matrix.sum(), diagonal.sum());
            }
        }
    }

    #[test]
    fn errors_name_the_mistake() {
        let x = Tensor::from([1, 2]);
        let error = x.try_tril(0).unwrap_err().to_string();
        assert!(
            error.contains("the tensor has 1 axes, but a matrix has 2 or more"),
            "{error}"
        );
        assert!(x.try_trace().is_err());
        assert!(x.try_diagonal(0, 0, 0).is_err());
        assert!(x.expand_dims(0).try_diag(0).is_err());
    }
}
