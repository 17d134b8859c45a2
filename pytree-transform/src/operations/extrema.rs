//! Products, minima, and positions of extrema. Maxima and sums are in `reduce.rs`.

use pytree_derive::panicking_twin;
use pytree_kernels::loops::reduction::{Extremum, Reduction};

use crate::base::error::TensorError;
use crate::operations::axes::{TensorAxes, axes_of, axis_of};
use crate::operations::reduce::{all_axes, keep_axes, reductions, wide_integer};
use crate::primitives::reduce::{argument_of, reduce_as, reduce_by};
use crate::tensor::Tensor;

#[track_caller]
fn min_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    reduce_by(Reduction::Min, tensor, axes)
}

#[track_caller]
fn prod_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    let dtype = wide_integer(tensor.dtype());
    reduce_as(Reduction::Prod, dtype, tensor, axes)
}

reductions! {
    (min_over, "take the minimum of", " there are no elements to choose from."):

    /// Returns the minimum of all elements as a scalar. The result is NaN if any element is NaN.
    ///
    /// Equal minima receive equal shares of the gradient, as in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([4, 1, 3]).min(), Tensor::from(1));
    /// ```
    #[doc(alias("jnp.min", "torch.amin"))]
    min try_min = all;

    /// Returns the minimum over `axes`, which are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 5], [3, 4]]).min_axes([0]), Tensor::from([1, 4]));
    /// ```
    #[doc(alias("jnp.min", "torch.amin"))]
    min_axes try_min_axes = removed;

    /// Returns the minimum over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 5], [3, 4]]).min_keep([1]), Tensor::from([[1], [3]]));
    /// ```
    min_keep try_min_keep = kept;
}

reductions! {
    (prod_over, "multiply the elements of", " the elements are bool."):

    /// Returns the product of all elements as a scalar. The product of no elements is 1. The product of i8 and i16 is
    /// i32, and the product of u8 and u16 is u32; see [`DType`](crate::DType).
    ///
    /// The derivative with respect to an element is the product of the other elements. The derivative is correct even
    /// if elements are 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 3, 4]).prod(), Tensor::from(24));
    /// ```
    #[doc(alias("jnp.prod", "torch.prod"))]
    prod try_prod = all;

    /// Returns the product over `axes`, which are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).prod_axes([0]), Tensor::from([3, 8]));
    /// ```
    #[doc(alias("jnp.prod", "torch.prod"))]
    prod_axes try_prod_axes = removed;

    /// Returns the product over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).prod_keep([1]), Tensor::from([[2], [12]]));
    /// ```
    prod_keep try_prod_keep = kept;
}

impl Tensor {
    /// Returns the position of the first maximum along `axis`, as i32. The axis is removed. NaN counts as the maximum.
    /// For the position among all elements, in row-major order, call [`flatten`](Self::flatten) first.
    ///
    /// # Panics
    /// Panics if `axis` is out of range or has length 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [6.0, 4.0]]).argmax(-1), Tensor::from([1, 0]));
    /// ```
    #[doc(alias("jnp.argmax", "torch.argmax"))]
    #[panicking_twin(argmax, Axis | Shape)]
    pub fn try_argmax(&self, axis: isize) -> Result<Self, TensorError> {
        let axis = axis_of("argmax", self.info(), axis)?;
        argument_of(Extremum::Max, self, axis)
    }

    /// Returns the position of the first maximum along `axis`, which is kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`argmax`](Self::argmax).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [6.0, 4.0]]).argmax_keep(-1), Tensor::from([[1], [0]]));
    /// ```
    #[panicking_twin(argmax_keep, Axis | Shape)]
    pub fn try_argmax_keep(&self, axis: isize) -> Result<Self, TensorError> {
        let axis = axis_of("argmax", self.info(), axis)?;
        let positions = argument_of(Extremum::Max, self, axis)?;
        Ok(keep_axes(&positions, self, &[axis]))
    }

    /// Returns the position of the first minimum along `axis`, as i32. The axis is removed. NaN counts as the minimum.
    /// For the position among all elements, in row-major order, call [`flatten`](Self::flatten) first.
    ///
    /// # Panics
    /// Panics if `axis` is out of range or has length 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [6.0, 4.0]]).argmin(-1), Tensor::from([0, 1]));
    /// ```
    #[doc(alias("jnp.argmin", "torch.argmin"))]
    #[panicking_twin(argmin, Axis | Shape)]
    pub fn try_argmin(&self, axis: isize) -> Result<Self, TensorError> {
        let axis = axis_of("argmin", self.info(), axis)?;
        argument_of(Extremum::Min, self, axis)
    }

    /// Returns the position of the first minimum along `axis`, which is kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`argmin`](Self::argmin).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [6.0, 4.0]]).argmin_keep(-1), Tensor::from([[0], [1]]));
    /// ```
    #[panicking_twin(argmin_keep, Axis | Shape)]
    pub fn try_argmin_keep(&self, axis: isize) -> Result<Self, TensorError> {
        let axis = axis_of("argmin", self.info(), axis)?;
        let positions = argument_of(Extremum::Min, self, axis)?;
        Ok(keep_axes(&positions, self, &[axis]))
    }
}
