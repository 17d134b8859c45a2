//! Cumulative reductions along an axis.

use pytree_derive::panicking_twin;
use pytree_kernels::loops::cumulative::{Cumulation, Run};

use crate::base::error::{TensorError, called};
use crate::operations::axes::axis_of;
use crate::operations::reduce::wide_integers;
use crate::primitives::cumulative::{Cumulative, CumulativeSum, cumulative, cumulative_sum};
use crate::tensor::Tensor;
use crate::tensor::trace::overwriting;

/// An axis along which a cumulative operation runs backward, from the last element to the first (`reverse=True` in
/// JAX).
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

/// The axis and the direction of a cumulative operation. With an integer, the operation runs forward along this axis,
/// from the first element to the last. With a [`Reversed`], the operation runs backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningAxis {
    axis: isize,
    reverse: bool,
}

pytree_base::conversions! { RunningAxis:
    [] isize, |axis| Self { axis, reverse: false };
    [] Reversed, |Reversed(axis)| Self { axis, reverse: true };
}

impl RunningAxis {
    fn of(self, tensor: &Tensor, operation: &'static str) -> Result<Run, TensorError> {
        let axis = axis_of(operation, tensor.info(), self.axis)?;
        let reverse = self.reverse;
        Ok(Run { axis, reverse })
    }
}

#[track_caller]
fn running_sum(tensor: &Tensor, run: Run) -> Result<Tensor, TensorError> {
    match overwriting(&CumulativeSum(run), [wide_integers(tensor)?]) {
        Ok(sums) => Ok(sums),
        Err([tensor]) => cumulative_sum(&tensor, run),
    }
}

#[track_caller]
fn running_product(tensor: &Tensor, run: Run) -> Result<Tensor, TensorError> {
    let cumulation = Cumulation::Prod;
    match overwriting(&Cumulative { cumulation, run }, [wide_integers(tensor)?]) {
        Ok(products) => Ok(products),
        Err([tensor]) => cumulative(cumulation, &tensor, run),
    }
}

/// Defines a panicking method and its fallible version for each row `name try_name = function`.
macro_rules! running {
    ($elements:literal: $($(#[$doc:meta])* $name:ident $try_name:ident = $function:ident $(($cumulation:expr))?;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = $elements]
            #[panicking_twin($name, composed, Axis | DType)]
            pub fn $try_name(&self, axis: impl Into<RunningAxis>) -> Result<Self, TensorError> {
                let _called = called(stringify!($name));
                let run = axis.into().of(self, stringify!($name))?;
                $function($($cumulation,)? self, run)
            }
        )*}
    };
}

running! {
    " Panics if `axis` is out of range, or if the elements are not numbers.":

    /// Returns the cumulative sum along `axis`: each element plus all elements before it, or plus all elements after it
    /// if the axis is [`Reversed`]. The sums of i8 and i16 are i32, and the sums of u8 and u16 are u32, as in NumPy's
    /// and JAX's `cumulative_sum`; see [`DType`](crate::DType).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).cumsum(0), Tensor::from([1, 3, 6]));
    /// ```
    #[doc(alias("jnp.cumsum", "lax.cumsum", "torch.cumsum"))]
    cumsum try_cumsum = running_sum;

    /// Returns the cumulative product along `axis`: each element times all elements before it, or times all elements
    /// after it if the axis is [`Reversed`]. The products of i8 and i16 are i32, and the products of u8 and u16 are u32;
    /// see [`DType`](crate::DType).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 3, 4]).cumprod(0), Tensor::from([2, 6, 24]));
    /// ```
    #[doc(alias("jnp.cumprod", "lax.cumprod", "torch.cumprod"))]
    cumprod try_cumprod = running_product;

    /// Returns the cumulative maximum along `axis`: the maximum of each element and all elements before it. If the axis
    /// is [`Reversed`], takes the maximum of the element and all elements after it. A NaN makes all later results NaN.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 3, 2]).cummax(0), Tensor::from([1, 3, 3]));
    /// ```
    #[doc(alias("lax.cummax", "torch.cummax"))]
    cummax try_cummax = cumulative(Cumulation::Max);

    /// Returns the cumulative minimum along `axis`: the minimum of each element and all elements before it. If the axis
    /// is [`Reversed`], takes the minimum of the element and all elements after it. A NaN makes all later results NaN.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 1, 3]).cummin(0), Tensor::from([2, 1, 1]));
    /// ```
    #[doc(alias("lax.cummin", "torch.cummin"))]
    cummin try_cummin = cumulative(Cumulation::Min);
}

running! {
    " Panics if `axis` is out of range, or if the elements are not floats.":

    /// Returns the cumulative log-sum-exp along `axis`: log Σ eˣ over each element and all elements before it. If the
    /// axis is [`Reversed`], sums over the element and all elements after it.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([0.0_f64, 0.0]);
    /// assert!((x.cumlogsumexp(0) - Tensor::from([0.0, 2.0_f64.ln()])).abs().max().item::<f64>() < 1e-15);
    /// ```
    #[doc(alias("lax.cumlogsumexp", "torch.logcumsumexp"))]
    cumlogsumexp try_cumlogsumexp = cumulative(Cumulation::LogSumExp);
}
