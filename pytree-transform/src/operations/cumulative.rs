//! Running reductions along an axis.

use pytree_derive::panicking_twin;

use crate::base::error::{TensorError, called};
use crate::operations::shape::axis_of;
use crate::primitives::cumulative::{Cumulation, Run, cumulative, cumulative_sum};
use crate::tensor::Tensor;

fn run(
    tensor: &Tensor,
    operation: &'static str,
    axis: isize,
    reverse: bool,
) -> Result<Run, TensorError> {
    let axis = axis_of(operation, tensor.info(), axis)?;
    Ok(Run { axis, reverse })
}

impl Tensor {
    /// Running sums along an axis: each element with all before it.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).cumsum(0), Tensor::from([1, 3, 6]));
    /// ```
    #[must_use]
    #[panicking_twin(cumsum, Axis | DType)]
    #[track_caller]
    pub fn try_cumsum(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cumsum");
        let run = run(self, "cumsum", axis, false)?;
        cumulative_sum(self, run)
    }

    /// Running sums along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).cumsum_reversed(0), Tensor::from([6, 5, 3]));
    /// ```
    #[must_use]
    #[panicking_twin(cumsum_reversed, Axis | DType)]
    #[track_caller]
    pub fn try_cumsum_reversed(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cumsum_reversed");
        let run = run(self, "cumsum", axis, true)?;
        cumulative_sum(self, run)
    }

    /// Running products along an axis: each element with all before it.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 3, 4]).cumprod(0), Tensor::from([2, 6, 24]));
    /// ```
    #[must_use]
    #[panicking_twin(cumprod, Axis | DType)]
    #[track_caller]
    pub fn try_cumprod(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cumprod");
        let run = run(self, "cumprod", axis, false)?;
        cumulative(Cumulation::Prod, self, run)
    }

    /// Running products along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 3, 4]).cumprod_reversed(0), Tensor::from([24, 12, 4]));
    /// ```
    #[must_use]
    #[panicking_twin(cumprod_reversed, Axis | DType)]
    #[track_caller]
    pub fn try_cumprod_reversed(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cumprod_reversed");
        let run = run(self, "cumprod", axis, true)?;
        cumulative(Cumulation::Prod, self, run)
    }

    /// Running maxima, NaN from the first one on, along an axis: each element with all before it.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 3, 2]).cummax(0), Tensor::from([1, 3, 3]));
    /// ```
    #[must_use]
    #[panicking_twin(cummax, Axis | DType)]
    #[track_caller]
    pub fn try_cummax(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cummax");
        let run = run(self, "cummax", axis, false)?;
        cumulative(Cumulation::Max, self, run)
    }

    /// Running maxima, NaN from the first one on, along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 3, 2]).cummax_reversed(0), Tensor::from([3, 3, 2]));
    /// ```
    #[must_use]
    #[panicking_twin(cummax_reversed, Axis | DType)]
    #[track_caller]
    pub fn try_cummax_reversed(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cummax_reversed");
        let run = run(self, "cummax", axis, true)?;
        cumulative(Cumulation::Max, self, run)
    }

    /// Running minima, NaN from the first one on, along an axis: each element with all before it.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 1, 3]).cummin(0), Tensor::from([2, 1, 1]));
    /// ```
    #[must_use]
    #[panicking_twin(cummin, Axis | DType)]
    #[track_caller]
    pub fn try_cummin(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cummin");
        let run = run(self, "cummin", axis, false)?;
        cumulative(Cumulation::Min, self, run)
    }

    /// Running minima, NaN from the first one on, along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 1, 3]).cummin_reversed(0), Tensor::from([1, 1, 3]));
    /// ```
    #[must_use]
    #[panicking_twin(cummin_reversed, Axis | DType)]
    #[track_caller]
    pub fn try_cummin_reversed(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cummin_reversed");
        let run = run(self, "cummin", axis, true)?;
        cumulative(Cumulation::Min, self, run)
    }

    /// Running logarithms of sums of exponentials, log Σ eˣ, along an axis: each element with all before it.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not f32 or f64.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([0.0_f64, 0.0]);
    /// assert!((x.cumlogsumexp(0) - Tensor::from([0.0, 2.0_f64.ln()])).abs().max().item::<f64>() < 1e-15);
    /// ```
    #[must_use]
    #[panicking_twin(cumlogsumexp, Axis | DType)]
    #[track_caller]
    pub fn try_cumlogsumexp(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cumlogsumexp");
        let run = run(self, "cumlogsumexp", axis, false)?;
        cumulative(Cumulation::LogSumExp, self, run)
    }

    /// Running logarithms of sums of exponentials, log Σ eˣ, along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not f32 or f64.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([0.0_f64, 0.0]);
    /// assert!((x.cumlogsumexp_reversed(0) - Tensor::from([2.0_f64.ln(), 0.0])).abs().max().item::<f64>() < 1e-15);
    /// ```
    #[must_use]
    #[panicking_twin(cumlogsumexp_reversed, Axis | DType)]
    #[track_caller]
    pub fn try_cumlogsumexp_reversed(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("cumlogsumexp_reversed");
        let run = run(self, "cumlogsumexp", axis, true)?;
        cumulative(Cumulation::LogSumExp, self, run)
    }
}
