//! Running reductions along an axis.

use pytree_derive::panicking_twin;

use crate::base::error::{TensorError, called};
use crate::operations::shape::axis_of;
use crate::primitives::cumulative::{Cumulation, Run, cumulative, cumulative_sum};
use crate::tensor::Tensor;

/// The axis of a running reduction, which begins at its end: each element with all behind it, as `reverse=True` in JAX.
///
/// # Examples
/// ```
/// use pytree_transform::{Reversed, Tensor};
/// let x = Tensor::from([1, 2, 3]);
/// assert_eq!(x.cumsum(0), Tensor::from([1, 3, 6]));
/// assert_eq!(x.cumsum(Reversed(0)), Tensor::from([6, 5, 3]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reversed(pub isize);

/// The axis of a running reduction, and from which end it begins: a number begins at the first element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningAxis {
    axis: isize,
    reverse: bool,
}

impl From<isize> for RunningAxis {
    fn from(axis: isize) -> Self {
        let reverse = false;
        Self { axis, reverse }
    }
}
impl From<Reversed> for RunningAxis {
    fn from(Reversed(axis): Reversed) -> Self {
        let reverse = true;
        Self { axis, reverse }
    }
}

impl RunningAxis {
    fn of(self, tensor: &Tensor, operation: &'static str) -> Result<Run, TensorError> {
        let axis = axis_of(operation, tensor.info(), self.axis)?;
        let reverse = self.reverse;
        Ok(Run { axis, reverse })
    }
}

/// For each row, the function that panics and its twin: `name try_name = function`.
macro_rules! running {
    ($elements:literal: $($(#[$doc:meta])* $name:ident $try_name:ident = $function:ident $(($cumulation:expr))?;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = $elements]
            #[must_use]
            #[panicking_twin($name, Axis | DType)]
            #[track_caller]
            pub fn $try_name(&self, axis: impl Into<RunningAxis>) -> Result<Self, TensorError> {
                let _called = called(stringify!($name));
                let run = axis.into().of(self, stringify!($name))?;
                $function($($cumulation,)? self, run)
            }
        )*}
    };
}

running! {
    " If there is no such axis, or the elements are not numbers.":

    /// Running sums along an axis: each element with all before it, or behind it if the axis is [`Reversed`].
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).cumsum(0), Tensor::from([1, 3, 6]));
    /// ```
    cumsum try_cumsum = cumulative_sum;

    /// Running products along an axis: each element with all before it, or behind it if the axis is [`Reversed`].
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 3, 4]).cumprod(0), Tensor::from([2, 6, 24]));
    /// ```
    cumprod try_cumprod = cumulative(Cumulation::Prod);

    /// Running maxima, NaN from the first one on, along an axis: each element with all before it, or behind it if the axis is [`Reversed`].
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 3, 2]).cummax(0), Tensor::from([1, 3, 3]));
    /// ```
    cummax try_cummax = cumulative(Cumulation::Max);

    /// Running minima, NaN from the first one on, along an axis: each element with all before it, or behind it if the axis is [`Reversed`].
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 1, 3]).cummin(0), Tensor::from([2, 1, 1]));
    /// ```
    cummin try_cummin = cumulative(Cumulation::Min);
}

running! {
    " If there is no such axis, or the elements are not f32 or f64.":

    /// Running logarithms of sums of exponentials, log Σ eˣ, along an axis: each element with all before it, or behind it if the axis is [`Reversed`].
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([0.0_f64, 0.0]);
    /// assert!((x.cumlogsumexp(0) - Tensor::from([0.0, 2.0_f64.ln()])).abs().max().item::<f64>() < 1e-15);
    /// ```
    cumlogsumexp try_cumlogsumexp = cumulative(Cumulation::LogSumExp);
}
