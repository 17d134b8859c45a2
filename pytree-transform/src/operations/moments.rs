//! Variances with a corrected divisor, and standard deviations.

use pytree_derive::panicking_twin;

use crate::base::error::{TensorError, called};
use crate::tensor::Tensor;

impl Tensor {
    /// Returns the variance over `axes`, which are removed, with a corrected divisor: Σ(x - mean)² / (n - correction)
    /// for `n` elements. This is `jnp.var` with `correction` (or `ddof`).
    ///
    /// A correction of 1 is Bessel's correction, which gives an unbiased estimate of the variance of the distribution
    /// that the elements are drawn from. The result is NaN if `n` is at most `correction`.
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
    #[must_use]
    #[panicking_twin(variance_with, Axis | Shape | DType)]
    #[track_caller]
    pub fn try_variance_with(
        &self,
        axes: impl AsRef<[isize]>,
        correction: usize,
    ) -> Result<Self, TensorError> {
        let axes = axes.as_ref();
        let variance = self.try_variance_axes(axes)?;
        if correction == 0 {
            return Ok(variance);
        }
        let rank = self.rank();
        let length = |&axis: &isize| {
            let from_end = axis.unsigned_abs();
            self.shape()[if axis < 0 { rank - from_end } else { from_end }]
        };
        let count: usize = axes.iter().map(length).product();
        if count <= correction {
            return Ok(variance * f64::NAN);
        }
        let squares = (self - self.mean_keep(axes)).square();
        Ok(squares.try_sum_axes(axes)? * ((count - correction) as f64).recip())
    }

    /// Returns the standard deviation over `axes`, which are removed: the square root of the
    /// [variance](Self::variance_axes), like `jnp.std`. Where the result is 0, its derivative is NaN.
    ///
    /// # Panics
    /// Panics in the same cases as [`variance_axes`](Self::variance_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [2.0, 2.0]]).standard_deviation_axes([1]), Tensor::from([2.0, 0.0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn standard_deviation_axes(&self, axes: impl AsRef<[isize]>) -> Self {
        let _called = called("take the standard deviation of");
        self.variance_axes(axes).sqrt()
    }

    /// Returns the square root of [`variance_with`](Self::variance_with).
    ///
    /// # Panics
    /// Panics in the same cases as [`variance_with`](Self::variance_with).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, 3.0, 5.0]).standard_deviation_with([0], 1), Tensor::from(2.0));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn standard_deviation_with(&self, axes: impl AsRef<[isize]>, correction: usize) -> Self {
        let _called = called("take the standard deviation of");
        self.variance_with(axes, correction).sqrt()
    }
}
