//! Products and minima. Maxima and sums are in `reduce.rs`.

use pytree_derive::panicking_twin;

use crate::base::error::{TensorError, or_panic};
use crate::operations::reduce::{all_axes, kept};
use crate::operations::shape::{axes_of, axis_of};
use crate::primitives::reduce::{Extremum, Reduction, argument_of, reduce_by};
use crate::tensor::Tensor;

impl Tensor {
    /// Returns the minimum of all elements as a scalar.
    ///
    /// The result is NaN if any element is NaN. Equal minima share the gradient equally, as in JAX.
    ///
    /// # Panics
    /// Panics if there are no elements.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([4, 1, 3]).min(), Tensor::from(1));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn min(&self) -> Self {
        or_panic(reduce_by(Reduction::Min, self, &all_axes(self)))
    }

    /// Returns the minimum over `axes`, which are removed.
    ///
    /// # Panics
    /// Panics if an axis is out of range, is given twice, or has length 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 5], [3, 4]]).min_axes([0]), Tensor::from([1, 4]));
    /// ```
    #[must_use]
    #[panicking_twin(min_axes, Axis | Shape | DType)]
    #[track_caller]
    pub fn try_min_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let axes = axes_of("take the minimum of", self.info(), axes.as_ref())?;
        reduce_by(Reduction::Min, self, &axes)
    }

    /// Returns the minimum over `axes`, which are kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`min_axes`](Self::min_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 5], [3, 4]]).min_keep([1]), Tensor::from([[1], [3]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn min_keep(&self, axes: impl AsRef<[isize]>) -> Self {
        let axes = axes.as_ref();
        kept(&self.min_axes(axes), self, axes)
    }

    /// Returns the position of the first minimum along `axis`, as i32. NaN counts as the minimum.
    ///
    /// # Panics
    /// Panics if `axis` is out of range, or has length 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 5.0], [6.0, 4.0]]).argmin(-1), Tensor::from([0, 1]));
    /// ```
    #[must_use]
    #[panicking_twin(argmin, Axis | Shape)]
    #[track_caller]
    pub fn try_argmin(&self, axis: isize) -> Result<Self, TensorError> {
        let axis = axis_of("argmin", self.info(), axis)?;
        argument_of(Extremum::Min, self, axis)
    }

    /// Returns the product of all elements as a scalar. The product of no elements is 1.
    ///
    /// The derivative by an element is the product of the other elements. This is correct even if elements are 0.
    ///
    /// # Panics
    /// Panics if the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, 3, 4]).prod(), Tensor::from(24));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn prod(&self) -> Self {
        or_panic(reduce_by(Reduction::Prod, self, &all_axes(self)))
    }

    /// Returns the product over `axes`, which are removed.
    ///
    /// # Panics
    /// Panics if an axis is out of range or given twice, or if the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).prod_axes([0]), Tensor::from([3, 8]));
    /// ```
    #[must_use]
    #[panicking_twin(prod_axes, Axis | Shape | DType)]
    #[track_caller]
    pub fn try_prod_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let axes = axes_of("multiply the elements of", self.info(), axes.as_ref())?;
        reduce_by(Reduction::Prod, self, &axes)
    }

    /// Returns the product over `axes`, which are kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`prod_axes`](Self::prod_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).prod_keep([1]), Tensor::from([[2], [12]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn prod_keep(&self, axes: impl AsRef<[isize]>) -> Self {
        let axes = axes.as_ref();
        kept(&self.prod_axes(axes), self, axes)
    }
}
