//! Reductions: sums, means, maxima, variances.
//!
//! Negative axes count from the end. Each reduction has three forms: over all axes; over some axes, which are
//! removed; and over some axes, which are kept with length 1 so that the result broadcasts against the original.

use pytree_derive::panicking_twin;

use crate::base::dtype::Shape;
use crate::base::error::{TensorError, or_panic};
use crate::operations::shape::{axes_of, axis_of};
use crate::primitives::reduce::{Extremum, Reduction};
use crate::primitives::{reduce, shape};
use crate::tensor::Tensor;

/// Returns the reduced tensor with the reduced axes restored with length 1.
#[track_caller]
pub(super) fn keep_axes(reduced: &Tensor, original: &Tensor, axes: &[usize]) -> Tensor {
    let length = |axis: usize| {
        if axes.contains(&axis) {
            1
        } else {
            original.shape()[axis]
        }
    };
    let shape: Shape = (0..original.rank()).map(length).collect();
    or_panic(shape::reshape(reduced, &shape))
}

/// Returns the reduced tensor with the reduced axes restored with length 1. The reduction has already checked `axes`.
#[track_caller]
pub(super) fn kept(reduced: &Tensor, original: &Tensor, axes: &[isize]) -> Tensor {
    let axes = or_panic(axes_of("keep the axes of", original.info(), axes));
    keep_axes(reduced, original, &axes)
}

/// Returns the number of elements that each result element reduces.
fn count(tensor: &Tensor, axes: &[usize]) -> f64 {
    axes.iter()
        .map(|&axis| tensor.shape()[axis])
        .product::<usize>() as f64
}

pub(crate) fn check_float(operation: &'static str, tensor: &Tensor) -> Result<(), TensorError> {
    if tensor.dtype().is_float() {
        return Ok(());
    }
    Err(TensorError::dtype(
        operation,
        &[tensor.info()],
        "f32 or f64",
    ))
}

#[track_caller]
fn mean_over(
    operation: &'static str,
    tensor: &Tensor,
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    check_float(operation, tensor)?;
    // Multiplies by the reciprocal of the constant, like XLA.
    Ok(reduce::sum(tensor, axes)? * count(tensor, axes).recip())
}

pub(super) fn all_axes(tensor: &Tensor) -> Shape {
    (0..tensor.rank()).collect()
}

impl Tensor {
    /// Returns the sum of all elements as a scalar.
    ///
    /// # Panics
    /// Panics if the elements are bool. Use [`count_nonzero`](Self::count_nonzero) to count them.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).sum(), Tensor::from(10));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sum(&self) -> Self {
        or_panic(reduce::sum(self, &all_axes(self)))
    }

    /// Returns the sum over `axes`, which are removed.
    ///
    /// # Panics
    /// Panics if an axis is out of range or given twice, or if the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).sum_axes([0]), Tensor::from([4, 6]));
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).sum_axes([-1]), Tensor::from([3, 7]));
    /// ```
    #[must_use]
    #[panicking_twin(sum_axes, Axis | Shape | DType)]
    #[track_caller]
    pub fn try_sum_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let axes = axes_of("sum", self.info(), axes.as_ref())?;
        reduce::sum(self, &axes)
    }

    /// Returns the sum over `axes`, which are kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`sum_axes`](Self::sum_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).sum_keep([1]), Tensor::from([[3], [7]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sum_keep(&self, axes: impl AsRef<[isize]>) -> Self {
        let axes = axes.as_ref();
        kept(&self.sum_axes(axes), self, axes)
    }

    /// Returns the mean of all elements as a scalar, or NaN if there are none.
    ///
    /// # Panics
    /// Panics if the elements are not floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0, 6.0]).mean(), Tensor::from(3.0));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn mean(&self) -> Self {
        or_panic(mean_over("take the mean of", self, &all_axes(self)))
    }

    /// Returns the mean over `axes`, which are removed.
    ///
    /// # Panics
    /// Panics if an axis is out of range or given twice, or if the elements are not floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 2.0], [3.0, 4.0]]).mean_axes([0]), Tensor::from([2.0, 3.0]));
    /// ```
    #[must_use]
    #[panicking_twin(mean_axes, Axis | Shape | DType)]
    #[track_caller]
    pub fn try_mean_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let axes = axes_of("take the mean of", self.info(), axes.as_ref())?;
        mean_over("take the mean of", self, &axes)
    }

    /// Returns the mean over `axes`, which are kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`mean_axes`](Self::mean_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[1.0, 3.0], [4.0, 8.0]]);
    /// assert_eq!(&x - x.mean_keep([-1]), Tensor::from([[-1.0, 1.0], [-2.0, 2.0]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn mean_keep(&self, axes: impl AsRef<[isize]>) -> Self {
        let axes = axes.as_ref();
        kept(&self.mean_axes(axes), self, axes)
    }

    /// Returns the maximum of all elements as a scalar, or NaN if any element is NaN.
    ///
    /// Equal maxima share the gradient equally, as in JAX.
    ///
    /// # Panics
    /// Panics if there are no elements.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 7, 3]).max(), Tensor::from(7));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn max(&self) -> Self {
        or_panic(reduce::reduce_by(Reduction::Max, self, &all_axes(self)))
    }

    /// Returns the maximum over `axes`, which are removed.
    ///
    /// # Panics
    /// Panics if an axis is out of range, is given twice, or has length 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 5], [3, 4]]).max_axes([0]), Tensor::from([3, 5]));
    /// ```
    #[must_use]
    #[panicking_twin(max_axes, Axis | Shape)]
    #[track_caller]
    pub fn try_max_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let axes = axes_of("take the maximum of", self.info(), axes.as_ref())?;
        reduce::reduce_by(Reduction::Max, self, &axes)
    }

    /// Returns the maximum over `axes`, which are kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`max_axes`](Self::max_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 5], [3, 4]]).max_keep([1]), Tensor::from([[5], [4]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn max_keep(&self, axes: impl AsRef<[isize]>) -> Self {
        let axes = axes.as_ref();
        kept(&self.max_axes(axes), self, axes)
    }

    /// Returns the position of the first maximum along `axis`, as i32. NaN counts as the maximum.
    ///
    /// # Panics
    /// Panics if `axis` is out of range, or has length 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [6.0, 4.0]]).argmax(-1), Tensor::from([1, 0]));
    /// ```
    #[must_use]
    #[panicking_twin(argmax, Axis | Shape)]
    #[track_caller]
    pub fn try_argmax(&self, axis: isize) -> Result<Self, TensorError> {
        let axis = axis_of("argmax", self.info(), axis)?;
        reduce::argument_of(Extremum::Max, self, axis)
    }

    /// Returns the variance over `axes`, which are removed: the mean of (x - mean)², without Bessel's correction.
    ///
    /// # Panics
    /// Panics in the same cases as [`mean_axes`](Self::mean_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 3.0], [2.0, 2.0]]).variance_axes([1]), Tensor::from([1.0, 0.0]));
    /// ```
    #[must_use]
    #[panicking_twin(variance_axes, Axis | Shape | DType)]
    #[track_caller]
    pub fn try_variance_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let operation = "take the variance of";
        let axes = axes_of(operation, self.info(), axes.as_ref())?;
        let mean = mean_over(operation, self, &axes)?;
        let deviation = self - keep_axes(&mean, self, &axes);
        mean_over(operation, &(&deviation * &deviation), &axes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dtype::DType;

    #[test]
    fn negative_and_repeated_axes_are_handled() {
        let x = Tensor::zeros(DType::F32, [2, 3, 4]);
        assert_eq!(x.sum_axes([-1, 0]).shape(), [3]);
        assert_eq!(x.max_keep([-2]).shape(), [2, 1, 4]);
        assert_eq!(x.sum_axes([]).shape(), [2, 3, 4]);
        assert_eq!(
            x.try_sum_axes([3]).unwrap_err().to_string(),
            "cannot sum f32[2,3,4]: axis 3 is out of range; its axes are -3 to 2"
        );
        let of = |x: Tensor| x.try_sum_axes([3]).unwrap_err().to_string();
        assert_eq!(
            of(Tensor::zeros(DType::F32, [2])),
            "cannot sum f32[2]: axis 3 is out of range; its axis is 0, or -1"
        );
        assert_eq!(
            of(Tensor::from(1.0_f32)),
            "cannot sum f32[]: axis 3 is out of range; it has no axes"
        );
        let error = x.try_max_axes([1, -2]).unwrap_err().to_string();
        assert!(
            error.contains("axis 1 is given twice in [1, -2]"),
            "{error}"
        );
    }

    #[test]
    fn only_floats_have_a_mean() {
        let error = Tensor::from([1, 2])
            .try_mean_axes([0])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("cannot take the mean of i32[2]: expected f32 or f64"),
            "{error}"
        );
        assert!(Tensor::zeros(DType::F32, [0]).mean().item::<f32>().is_nan());
    }
}
