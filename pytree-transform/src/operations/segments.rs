//! Reductions of groups of rows, like `jax.ops.segment_sum`.

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::Comparison;

use crate::base::error::TensorError;
use crate::primitives::convert::convert;
use crate::primitives::create::full;
use crate::primitives::elementwise::compare;
use crate::primitives::gather::scatter_add;
use crate::primitives::select::select;
use crate::tensor::Tensor;

/// Returns the initial results, and indices for an update. In these indices, negative numbers are replaced by numbers that are
/// out of range, because an update would count negative indices from the end.
#[track_caller]
fn prepared(
    operation: &'static str,
    data: &Tensor,
    indices: &Tensor,
    segments: usize,
    neutral: f64,
) -> Result<(Tensor, Tensor), TensorError> {
    let operands = [data.info(), indices.info()];
    if indices.dtype().is_float() || indices.dtype() == DType::Bool {
        let expected = "numbers and integers as indices of segments";
        return Err(TensorError::dtype(operation, &operands, expected));
    }
    if data.dtype() == DType::Bool {
        let expected = "numbers and integers as indices of segments";
        return Err(TensorError::dtype(operation, &operands, expected));
    }
    if !data.shape().starts_with(indices.shape()) {
        return Err(TensorError::shape(
            operation,
            &operands,
            "the first axes of the data differ from the axes of the indices",
            "pass one index for each row of the data",
        ));
    }
    let rest = &data.shape()[indices.rank()..];
    let start = full(data.dtype(), &[&[segments], rest].concat(), neutral)?;
    // As an unsigned number, a negative index is out of range.
    if indices.dtype() != DType::I64 && i32::try_from(segments).is_ok() {
        return Ok((start, convert(indices, DType::U32)?));
    }
    let wide = convert(indices, DType::I64)?;
    let negative = compare(Comparison::Lt, &wide, &Tensor::zeros_like(&wide))?;
    let outside = Tensor::full_like(&wide, segments as f64);
    Ok((start, select(&negative, &outside, &wide)?))
}

/// Methods that reduce groups of rows.
///
/// The tensor has the shape `[rows.., rest..]`. `indices: [rows..]` has the index of the segment of each row, as
/// integers. The result has the shape `[segments, rest..]`. As in JAX, rows with an index outside of `0..segments` are
/// dropped.
impl Tensor {
    /// Returns the sum of the rows of each segment, like `jax.ops.segment_sum`. The sum of an empty segment is 0.
    ///
    /// # Panics
    /// Panics if the axes of the indices are not the first axes of the tensor, if the indices are not integers, or if
    /// the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0, 2.0, 4.0]);
    /// assert_eq!(x.segment_sum(&Tensor::from([0, 2, 0]), 3), Tensor::from([5.0, 0.0, 2.0]));
    /// ```
    #[doc(alias("jax.ops.segment_sum", "torch.scatter_add"))]
    #[panicking_twin(segment_sum, Shape | DType)]
    pub fn try_segment_sum(&self, indices: &Self, segments: usize) -> Result<Self, TensorError> {
        let (start, indices) = prepared("segment_sum", self, indices, segments, 0.0)?;
        if start.is_empty() || self.is_empty() {
            return Ok(start);
        }
        scatter_add(self, &indices, 0, segments)
    }

    /// Returns the product of the rows of each segment, like `jax.ops.segment_prod`. The product of an empty segment
    /// is 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`segment_sum`](Self::segment_sum).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([3.0, 2.0, 4.0]);
    /// assert_eq!(x.segment_prod(&Tensor::from([0, 2, 0]), 3), Tensor::from([12.0, 1.0, 2.0]));
    /// ```
    #[doc(alias = "jax.ops.segment_prod")]
    #[panicking_twin(segment_prod, Shape | DType)]
    pub fn try_segment_prod(&self, indices: &Self, segments: usize) -> Result<Self, TensorError> {
        let (start, indices) = prepared("segment_prod", self, indices, segments, 1.0)?;
        start.at_indices(&indices, 0).try_multiply(self)
    }

    /// Returns the maximum of the rows of each segment, like `jax.ops.segment_max`. The maximum of an empty segment is
    /// -∞ for floats, and the least integer for integers. The gradient is divided equally among equal maxima.
    ///
    /// # Panics
    /// Panics in the same cases as [`segment_sum`](Self::segment_sum).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([3, 2, 4]);
    /// assert_eq!(x.segment_max(&Tensor::from([0, 1, 0]), 2), Tensor::from([4, 2]));
    /// ```
    #[doc(alias = "jax.ops.segment_max")]
    #[panicking_twin(segment_max, Shape | DType)]
    pub fn try_segment_max(&self, indices: &Self, segments: usize) -> Result<Self, TensorError> {
        let (start, indices) = prepared("segment_max", self, indices, segments, f64::NEG_INFINITY)?;
        start.at_indices(&indices, 0).try_max(self)
    }

    /// Returns the minimum of the rows of each segment, like `jax.ops.segment_min`. The minimum of an empty segment is
    /// ∞ for floats, and the greatest integer for integers. The gradient is divided equally among equal minima.
    ///
    /// # Panics
    /// Panics in the same cases as [`segment_sum`](Self::segment_sum).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([3, 2, 4]);
    /// assert_eq!(x.segment_min(&Tensor::from([0, 1, 0]), 2), Tensor::from([3, 2]));
    /// ```
    #[doc(alias = "jax.ops.segment_min")]
    #[panicking_twin(segment_min, Shape | DType)]
    pub fn try_segment_min(&self, indices: &Self, segments: usize) -> Result<Self, TensorError> {
        let (start, indices) = prepared("segment_min", self, indices, segments, f64::INFINITY)?;
        start.at_indices(&indices, 0).try_min(self)
    }
}
