//! Variances with a correction of the divisor, and standard deviations.

use pytree_derive::panicking_twin;

use crate::base::error::{TensorError, called};
use crate::tensor::Tensor;

impl Tensor {
    /// The variance over some axes, which go, with a smaller divisor: Σ(x - mean)² / (n - correction), as
    /// `jnp.var` with `correction` (or `ddof`).
    ///
    /// With 1, Bessel's correction, it estimates the variance of what the elements were drawn from. NaN if not
    /// more than `correction` elements go into one.
    ///
    /// # Panics
    /// If there is no such axis, if one is given twice, or if this is not a tensor of floats.
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

    /// The standard deviation over some axes, which go: the square root of the
    /// [variance](Self::variance_axes), as `jnp.std`. Where it is 0 its derivative is NaN.
    ///
    /// # Panics
    /// As [`variance_axes`](Self::variance_axes).
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

    /// The square root of [`variance_with`](Self::variance_with).
    ///
    /// # Panics
    /// As [`variance_with`](Self::variance_with).
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
