//! The three forms of each reduction. This file also defines sums, means and maxima.
//!
//! `sum` reduces all axes. `sum_axes` reduces some axes and removes them. `sum_keep` reduces some axes and keeps them
//! with length 1, so that the result broadcasts against the operand. Negative axes count from the end.

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::narrow::wide;
use pytree_kernels::base::shape::{AxisList, Shape};
use pytree_kernels::loops::reduction::Reduction;

use crate::base::error::{Called, TensorError, called, or_panic};
use crate::operations::axes::{TensorAxes, axes_of};
use crate::operations::fused::try_fused;
use crate::primitives::convert::convert;
use crate::primitives::{reduce, shape};
use crate::tensor::Tensor;

/// Returns `reduced` with each reduced axis restored as an axis of length 1.
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

/// Returns the number of elements that are reduced to one element of the result.
pub(super) fn count(tensor: &Tensor, axes: &[usize]) -> f64 {
    axes.iter()
        .map(|&axis| tensor.shape()[axis])
        .product::<usize>() as f64
}

pub(super) fn check_float(operation: &'static str, tensor: &Tensor) -> Result<(), TensorError> {
    if tensor.dtype().is_float() {
        return Ok(());
    }
    Err(TensorError::dtype(
        operation,
        &[tensor.info()],
        "a float dtype",
    ))
}

/// Makes errors name `function`; see [`called`]. Returns an error if the tensor is not one of floats.
pub(crate) fn called_with_floats(
    function: &'static str,
    tensor: &Tensor,
) -> Result<Called, TensorError> {
    let called = called(function);
    check_float(function, tensor)?;
    Ok(called)
}

/// Converts half-precision floats to f32, so that a computation rounds only once. Returns other floats unchanged.
#[track_caller]
pub(super) fn wide_floats(tensor: &Tensor) -> Result<Tensor, TensorError> {
    convert(tensor, wide(tensor.dtype()))
}

/// Returns the dtype in which numbers are added and multiplied: 32 bits for integers of 8 and 16 bits, and other dtypes unchanged.
pub(super) fn wide_integer(dtype: DType) -> DType {
    if dtype.is_integer() {
        return wide(dtype);
    }
    dtype
}

/// Converts integers of 8 and 16 bits to 32 bits, in which they are added and multiplied. Returns other tensors unchanged.
#[track_caller]
pub(super) fn wide_integers(tensor: &Tensor) -> Result<Tensor, TensorError> {
    convert(tensor, wide_integer(tensor.dtype()))
}

#[track_caller]
pub(super) fn sum_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    reduce::sum_as(wide_integer(tensor.dtype()), tensor, axes)
}

#[track_caller]
fn mean_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    let _called = called_with_floats("take the mean of", tensor)?;
    try_fused(&[tensor], || {
        // Multiply by the reciprocal of the number of elements, like XLA.
        let sum = reduce::sum(&wide_floats(tensor)?, axes)?;
        convert(&(sum * count(tensor, axes).recip()), tensor.dtype())
    })
}

pub(super) fn all_axes(tensor: &Tensor) -> AxisList {
    (0..tensor.rank()).collect()
}

#[track_caller]
fn max_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    reduce::reduce_by(Reduction::Max, tensor, axes)
}

/// Returns the result of a reduction whose axes are removed: `reduced` itself.
pub(super) fn removed(reduced: Tensor, _: &Tensor, _: &[usize]) -> Tensor {
    reduced
}

/// Returns the result of a reduction whose axes are kept with length 1.
#[track_caller]
pub(super) fn kept(reduced: Tensor, original: &Tensor, axes: &[usize]) -> Tensor {
    keep_axes(&reduced, original, axes)
}

/// Defines the methods of a reduction from a function of a tensor and distinct axes. Each method has a fallible
/// version. The text in the first row completes "Panics if". Each method reduces `all` axes, or reduces some axes,
/// which are [`removed`] or [`kept`].
macro_rules! reductions {
    (
        ($reduce:path, $operation:literal, $when:literal):
        $($(#[$doc:meta])* $name:ident $try_name:ident = $form:ident;)*
    ) => {
        $(crate::operations::reduce::reductions!(
            $form [$(#[$doc])*] $name $try_name, $reduce, $operation, $when
        );)*
    };
    (all [$($doc:tt)*] $name:ident $try_name:ident, $reduce:path, $operation:literal, $when:literal) => {
        impl Tensor {
            $($doc)*
            ///
            /// # Panics
            /// Panics if
            #[doc = $when]
            #[panicking_twin($name, Shape | DType)]
            pub fn $try_name(&self) -> Result<Self, TensorError> {
                $reduce(self, &all_axes(self))
            }
        }
    };
    ($axes:ident [$($doc:tt)*] $name:ident $try_name:ident, $reduce:path, $operation:literal, $when:literal) => {
        impl Tensor {
            $($doc)*
            ///
            /// # Panics
            /// Panics if an axis is out of range, if an axis is given twice, or if
            #[doc = $when]
            #[panicking_twin($name, Axis | Shape | DType)]
            pub fn $try_name(&self, axes: impl TensorAxes) -> Result<Self, TensorError> {
                let axes = axes_of($operation, self.info(), axes.axes())?;
                let reduced = $reduce(self, &axes)?;
                Ok(crate::operations::reduce::$axes(reduced, self, &axes))
            }
        }
    };
}
pub(super) use reductions;

reductions! {
    (sum_over, "sum", " the elements are bool. Use [`count_nonzero`](Self::count_nonzero) to count them."):

    /// Returns the sum of all elements as a scalar. The sum of i8 and i16 is i32, and the sum of u8 and u16 is u32; see
    /// [`DType`](crate::DType).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).sum(), Tensor::from(10));
    /// assert_eq!(Tensor::from([200_u8; 1000]).sum(), Tensor::from(200_000_u32));
    /// ```
    #[doc(alias("jnp.sum", "torch.sum"))]
    sum try_sum = all;

    /// Returns the sum over `axes`, which are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).sum_axes([0]), Tensor::from([4, 6]));
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).sum_axes([-1]), Tensor::from([3, 7]));
    /// ```
    #[doc(alias("jnp.sum", "torch.sum"))]
    sum_axes try_sum_axes = removed;

    /// Returns the sum over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).sum_keep([1]), Tensor::from([[3], [7]]));
    /// ```
    sum_keep try_sum_keep = kept;
}

reductions! {
    (mean_over, "take the mean of", " the elements are not floats."):

    /// Returns the mean of all elements as a scalar. The result is NaN if there are no elements.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0, 6.0]).mean(), Tensor::from(3.0));
    /// ```
    #[doc(alias("jnp.mean", "torch.mean"))]
    mean try_mean = all;

    /// Returns the mean over `axes`, which are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 2.0], [3.0, 4.0]]).mean_axes([0]), Tensor::from([2.0, 3.0]));
    /// ```
    #[doc(alias("jnp.mean", "torch.mean"))]
    mean_axes try_mean_axes = removed;

    /// Returns the mean over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[1.0, 3.0], [4.0, 8.0]]);
    /// assert_eq!(&x - x.mean_keep([-1]), Tensor::from([[-1.0, 1.0], [-2.0, 2.0]]));
    /// ```
    mean_keep try_mean_keep = kept;
}

reductions! {
    (max_over, "take the maximum of", " there are no elements to choose from."):

    /// Returns the maximum of all elements as a scalar. The result is NaN if any element is NaN.
    ///
    /// Equal maxima receive equal shares of the gradient, as in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 7, 3]).max(), Tensor::from(7));
    /// ```
    #[doc(alias("jnp.max", "torch.amax"))]
    max try_max = all;

    /// Returns the maximum over `axes`, which are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 5], [3, 4]]).max_axes([0]), Tensor::from([3, 5]));
    /// ```
    #[doc(alias("jnp.max", "torch.amax"))]
    max_axes try_max_axes = removed;

    /// Returns the maximum over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 5], [3, 4]]).max_keep([1]), Tensor::from([[5], [4]]));
    /// ```
    max_keep try_max_keep = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_and_repeated_axes_are_handled() {
        let x = Tensor::zeros(DType::F32, [2, 3, 4]);
        assert_eq!(x.sum_axes([-1, 0]).shape(), [3]);
        assert_eq!(x.max_keep([-2]).shape(), [2, 1, 4]);
        assert_eq!(x.sum_axes([]).shape(), [2, 3, 4]);
        assert_eq!(
            x.try_sum_axes([3]).unwrap_err().to_string(),
            "cannot sum f32[2,3,4]: axis 3 is out of range; use an axis from -3 to 2"
        );
        let of = |x: Tensor| x.try_sum_axes([3]).unwrap_err().to_string();
        assert_eq!(
            of(Tensor::zeros(DType::F32, [2])),
            "cannot sum f32[2]: axis 3 is out of range; use axis 0 or -1"
        );
        assert_eq!(
            of(Tensor::from(1.0_f32)),
            "cannot sum f32[]: axis 3 is out of range; the tensor has no axes"
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
            error.contains("cannot take the mean of i32[2]: expected a float dtype"),
            "{error}"
        );
        assert!(Tensor::zeros(DType::F32, [0]).mean().item::<f32>().is_nan());
    }
}
