//! Running reductions along an axis.

use pytree_derive::panicking_twin;

use crate::base::error::{TensorError, called};
use crate::operations::shape::axis_of;
use crate::primitives::cumulative::{Cumulation, Run, cumulative, cumulative_sum};
use crate::tensor::Tensor;

/// For each row, the function that panics and its twin: `name try_name = function, whether it runs from the end`.
macro_rules! running {
    ($elements:literal: $($(#[$doc:meta])* $name:ident $try_name:ident = $function:ident $(($cumulation:expr))?, $reverse:literal;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = $elements]
            #[must_use]
            #[panicking_twin($name, Axis | DType)]
            #[track_caller]
            pub fn $try_name(&self, axis: isize) -> Result<Self, TensorError> {
                let _called = called(stringify!($name));
                let axis = axis_of(stringify!($name), self.info(), axis)?;
                $function($($cumulation,)? self, Run { axis, reverse: $reverse })
            }
        )*}
    };
}

running! {
    " If there is no such axis, or the elements are not numbers.":

    /// Running sums along an axis: each element with all before it.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).cumsum(0), Tensor::from([1, 3, 6]));
    /// ```
    cumsum try_cumsum = cumulative_sum, false;

    /// Running sums along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).cumsum_reversed(0), Tensor::from([6, 5, 3]));
    /// ```
    cumsum_reversed try_cumsum_reversed = cumulative_sum, true;

    /// Running products along an axis: each element with all before it.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 3, 4]).cumprod(0), Tensor::from([2, 6, 24]));
    /// ```
    cumprod try_cumprod = cumulative(Cumulation::Prod), false;

    /// Running products along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 3, 4]).cumprod_reversed(0), Tensor::from([24, 12, 4]));
    /// ```
    cumprod_reversed try_cumprod_reversed = cumulative(Cumulation::Prod), true;

    /// Running maxima, NaN from the first one on, along an axis: each element with all before it.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 3, 2]).cummax(0), Tensor::from([1, 3, 3]));
    /// ```
    cummax try_cummax = cumulative(Cumulation::Max), false;

    /// Running maxima, NaN from the first one on, along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 3, 2]).cummax_reversed(0), Tensor::from([3, 3, 2]));
    /// ```
    cummax_reversed try_cummax_reversed = cumulative(Cumulation::Max), true;

    /// Running minima, NaN from the first one on, along an axis: each element with all before it.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 1, 3]).cummin(0), Tensor::from([2, 1, 1]));
    /// ```
    cummin try_cummin = cumulative(Cumulation::Min), false;

    /// Running minima, NaN from the first one on, along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 1, 3]).cummin_reversed(0), Tensor::from([1, 1, 3]));
    /// ```
    cummin_reversed try_cummin_reversed = cumulative(Cumulation::Min), true;
}

running! {
    " If there is no such axis, or the elements are not f32 or f64.":

    /// Running logarithms of sums of exponentials, log Σ eˣ, along an axis: each element with all before it.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([0.0_f64, 0.0]);
    /// assert!((x.cumlogsumexp(0) - Tensor::from([0.0, 2.0_f64.ln()])).abs().max().item::<f64>() < 1e-15);
    /// ```
    cumlogsumexp try_cumlogsumexp = cumulative(Cumulation::LogSumExp), false;

    /// Running logarithms of sums of exponentials, log Σ eˣ, along an axis: each element with all behind it, as `reverse=True` in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([0.0_f64, 0.0]);
    /// assert!((x.cumlogsumexp_reversed(0) - Tensor::from([2.0_f64.ln(), 0.0])).abs().max().item::<f64>() < 1e-15);
    /// ```
    cumlogsumexp_reversed try_cumlogsumexp_reversed = cumulative(Cumulation::LogSumExp), true;
}
