//! Variances, standard deviations and medians.

use pytree_derive::panicking_twin;
use pytree_kernels::base::shape::{AxisList, PerAxis, Shape, without_axes};
use pytree_kernels::loops::elementwise::Unary;
use pytree_kernels::loops::sort::Sorted;

use crate::base::error::TensorError;
use crate::operations::axes::{TensorAxes, axes_of};
use crate::operations::fused::try_fused;
use crate::operations::reduce::{
    all_axes, called_with_floats, check_float, count, keep_axes, reductions, wide_floats,
};
use crate::primitives::convert::convert;
use crate::primitives::elementwise::unary;
use crate::primitives::reduce::sum;
use crate::primitives::shape::{reshape, transpose};
use crate::primitives::slice::slice;
use crate::primitives::sort::sort;
use crate::tensor::Tensor;

const VARIANCE: &str = "take the variance of";
const STANDARD_DEVIATION: &str = "take the standard deviation of";

/// Returns Σ(x - mean)² / (n - correction) over `axes` with n elements. The result is NaN if n is at most `correction`.
#[track_caller]
fn corrected_variance(
    operation: &'static str,
    tensor: &Tensor,
    axes: &[usize],
    correction: usize,
) -> Result<Tensor, TensorError> {
    let _called = called_with_floats(operation, tensor)?;
    try_fused(&[tensor], || {
        let (dtype, tensor) = (tensor.dtype(), &wide_floats(tensor)?);
        let count = count(tensor, axes);
        // Multiply by the reciprocals of the constants, like XLA.
        let mean = sum(tensor, axes)? * count.recip();
        let deviation = tensor - keep_axes(&mean, tensor, axes);
        let squares = sum(&(&deviation * &deviation), axes)?;
        let divisor = count - correction as f64;
        let factor = if divisor > 0.0 {
            divisor.recip()
        } else {
            f64::NAN
        };
        convert(&(squares * factor), dtype)
    })
}

#[track_caller]
fn variance_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    corrected_variance(VARIANCE, tensor, axes, 0)
}

#[track_caller]
fn standard_deviation_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    let variance = corrected_variance(STANDARD_DEVIATION, tensor, axes, 0)?;
    unary(Unary::Sqrt, &variance)
}

reductions! {
    (variance_over, "take the variance of", " the elements are not floats."):

    /// Returns the variance of all elements as a scalar: the mean of (x - mean)², without Bessel's correction.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, 3.0]).variance(), Tensor::from(1.0));
    /// ```
    #[doc(alias = "jnp.var")]
    variance try_variance = all;

    /// Returns the variance over `axes`, which are removed: the mean of (x - mean)², without Bessel's correction.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 3.0], [2.0, 2.0]]).variance_axes([1]), Tensor::from([1.0, 0.0]));
    /// ```
    #[doc(alias = "jnp.var")]
    variance_axes try_variance_axes = removed;

    /// Returns the variance over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 3.0], [2.0, 2.0]]).variance_keep([1]), Tensor::from([[1.0], [0.0]]));
    /// ```
    variance_keep try_variance_keep = kept;
}

reductions! {
    (standard_deviation_over, "take the standard deviation of", " the elements are not floats."):

    /// Returns the standard deviation of all elements as a scalar: the square root of the [variance](Self::variance),
    /// like `jnp.std`. The derivative is NaN if the result is 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, 5.0]).standard_deviation(), Tensor::from(2.0));
    /// ```
    #[doc(alias = "jnp.std")]
    standard_deviation try_standard_deviation = all;

    /// Returns the standard deviation over `axes`, which are removed: the square root of the
    /// [variance](Self::variance_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [2.0, 2.0]]).standard_deviation_axes([1]), Tensor::from([2.0, 0.0]));
    /// ```
    #[doc(alias = "jnp.std")]
    standard_deviation_axes try_standard_deviation_axes = removed;

    /// Returns the standard deviation over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [2.0, 2.0]]).standard_deviation_keep([1]), Tensor::from([[2.0], [0.0]]));
    /// ```
    standard_deviation_keep try_standard_deviation_keep = kept;
}

impl Tensor {
    /// Returns the variance over `axes` with a corrected divisor: Σ(x - mean)² / (n - correction) for `n` elements.
    /// `axes` are removed. Equivalent to `jnp.var` with `correction` (or `ddof`).
    ///
    /// A correction of 1 is Bessel's correction. Bessel's correction makes the result an unbiased estimate of the
    /// variance of the distribution from which the elements are drawn. The result is NaN if `n` is at most
    /// `correction`.
    ///
    /// # Panics
    /// Panics if an axis is out of range or given twice, or if the dtype is not a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[1.0, 3.0], [2.0, 2.0]]);
    /// assert_eq!(x.variance_with([1], 1), Tensor::from([2.0, 0.0]));
    /// assert_eq!(x.variance_with([1], 0), x.variance_axes([1]));
    /// ```
    #[doc(alias("jnp.var", "torch.var"))]
    #[panicking_twin(variance_with, Axis | Shape | DType)]
    pub fn try_variance_with(
        &self,
        axes: impl TensorAxes,
        correction: usize,
    ) -> Result<Self, TensorError> {
        let axes = axes_of(VARIANCE, self.info(), axes.axes())?;
        corrected_variance(VARIANCE, self, &axes, correction)
    }

    /// Returns the standard deviation over `axes` with a corrected divisor: the square root of
    /// [`variance_with`](Self::variance_with). `axes` are removed.
    ///
    /// # Panics
    /// Panics in the same cases as [`variance_with`](Self::variance_with).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, 3.0, 5.0]).standard_deviation_with([0], 1), Tensor::from(2.0));
    /// ```
    #[doc(alias("jnp.std", "torch.std"))]
    #[panicking_twin(standard_deviation_with, Axis | Shape | DType)]
    pub fn try_standard_deviation_with(
        &self,
        axes: impl TensorAxes,
        correction: usize,
    ) -> Result<Self, TensorError> {
        let axes = axes_of(STANDARD_DEVIATION, self.info(), axes.axes())?;
        let variance = corrected_variance(STANDARD_DEVIATION, self, &axes, correction)?;
        unary(Unary::Sqrt, &variance)
    }
}

/// Returns the elements from `start` to `end` of each row.
#[track_caller]
fn part_of_rows(rows: &Tensor, start: usize, end: usize) -> Result<Tensor, TensorError> {
    let last = rows.rank() - 1;
    let mut starts: PerAxis = rows.shape().iter().map(|_| 0).collect();
    let strides: PerAxis = rows.shape().iter().map(|_| 1).collect();
    let mut limits = PerAxis::from_slice(rows.shape());
    (starts[last], limits[last]) = (start, end);
    slice(rows, &starts, &limits, &strides)
}

/// Sorts the elements along `axes` together, and returns the mean of the one or two middle elements.
#[track_caller]
fn median_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    TensorError::composed("take the median of", || {
        check_float("take the median of", tensor)?;
        let shape = without_axes(tensor.shape(), axes);
        let length = axes.iter().map(|&axis| tensor.shape()[axis]).product();
        if length == 0 {
            return Ok(sum(tensor, axes)? * f64::NAN);
        }
        let others = (0..tensor.rank()).filter(|axis| !axes.contains(axis));
        let order: AxisList = others.chain(axes.iter().copied()).collect();
        let last = shape.len();
        let joined: Shape = shape.iter().copied().chain([length]).collect();
        let rows = reshape(&transpose(tensor, &order)?, &joined)?;
        let sorted = sort(Sorted::Elements, &rows, last)?;
        let (start, end) = ((length - 1) / 2, length / 2 + 1);
        // Divide before the addition, so that the sum of two middle elements does not overflow.
        let halves = part_of_rows(&sorted, start, end)? * ((end - start) as f64).recip();
        let middle = sum(&halves, &[last])?;
        // NaN is sorted to the end. So if a row contains NaN, the last element is NaN.
        let greatest = reshape(&part_of_rows(&sorted, length - 1, length)?, &shape)?;
        let nan = Tensor::full(tensor.dtype(), &shape, f64::NAN);
        greatest.isnan().try_select(&nan, &middle)
    })
}

reductions! {
    (median_over, "take the median of", " the elements are not floats."):

    /// Returns the median of all elements as a scalar. The result is NaN if any element is NaN or if there are no
    /// elements. The median of an even number of elements is the mean of the two middle elements.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([7.0, 1.0, 2.0]).median(), Tensor::from(2.0));
    /// ```
    #[doc(alias("jnp.median", "torch.median"))]
    median try_median = all;

    /// Returns the median over `axes`, which are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [2.0, 3.0]]).median_axes([1]), Tensor::from([3.0, 2.5]));
    /// ```
    #[doc(alias("jnp.median", "torch.median"))]
    median_axes try_median_axes = removed;

    /// Returns the median over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [2.0, 3.0]]).median_keep([1]), Tensor::from([[3.0], [2.5]]));
    /// ```
    median_keep try_median_keep = kept;
}
