//! Boolean reductions: all, any, and counts. A number is true if it is not 0. NaN is true.

use pytree_derive::panicking_twin;

use crate::base::dtype::DType;
use crate::base::error::{TensorError, or_panic};
use crate::operations::reduce::{all_axes, kept};
use crate::operations::shape::axes_of;
use crate::primitives::convert::convert;
use crate::primitives::elementwise::compare;
use crate::primitives::reduce::{Reduction, reduce_by, sum};
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;

/// Returns whether each element is true or nonzero.
#[track_caller]
fn truth(tensor: &Tensor) -> Tensor {
    if tensor.dtype() == DType::Bool {
        return tensor.clone();
    }
    let zero = Tensor::constant(tensor.dtype(), 0.0);
    or_panic(compare(Comparison::Ne, tensor, &zero))
}

impl Tensor {
    /// Returns whether every element is true or nonzero, as a scalar. True for an empty tensor.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([true, false]).all(), Tensor::from(false));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn all(&self) -> Self {
        or_panic(reduce_by(Reduction::And, &truth(self), &all_axes(self)))
    }

    /// Returns whether every element along `axes` is true or nonzero. `axes` are removed.
    ///
    /// # Panics
    /// Panics if an axis is out of range, or given twice.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[true, false], [true, true]]).all_axes([1]), Tensor::from([false, true]));
    /// ```
    #[must_use]
    #[panicking_twin(all_axes, Axis | Shape)]
    #[track_caller]
    pub fn try_all_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let axes = axes_of("all", self.info(), axes.as_ref())?;
        reduce_by(Reduction::And, &truth(self), &axes)
    }

    /// Returns whether every element along `axes` is true or nonzero. `axes` are kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`all_axes`](Self::all_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.5, 0.0]]).all_keep([1]), Tensor::from([[false]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn all_keep(&self, axes: impl AsRef<[isize]>) -> Self {
        let axes = axes.as_ref();
        kept(&self.all_axes(axes), self, axes)
    }

    /// Returns whether any element is true or nonzero, as a scalar. False for an empty tensor.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([true, false]).any(), Tensor::from(true));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn any(&self) -> Self {
        or_panic(reduce_by(Reduction::Or, &truth(self), &all_axes(self)))
    }

    /// Returns whether any element along `axes` is true or nonzero. `axes` are removed.
    ///
    /// # Panics
    /// Panics if an axis is out of range, or given twice.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[true, false], [false, false]]).any_axes([1]), Tensor::from([true, false]));
    /// ```
    #[must_use]
    #[panicking_twin(any_axes, Axis | Shape)]
    #[track_caller]
    pub fn try_any_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let axes = axes_of("any", self.info(), axes.as_ref())?;
        reduce_by(Reduction::Or, &truth(self), &axes)
    }

    /// Returns whether any element along `axes` is true or nonzero. `axes` are kept with length 1.
    ///
    /// # Panics
    /// Panics in the same cases as [`any_axes`](Self::any_axes).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[0, 3]]).any_keep([1]), Tensor::from([[true]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn any_keep(&self, axes: impl AsRef<[isize]>) -> Self {
        let axes = axes.as_ref();
        kept(&self.any_axes(axes), self, axes)
    }

    /// Returns the number of elements that are true or nonzero, as a scalar i32.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([0.0, 1.5, -2.0]).count_nonzero(), Tensor::from(2));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn count_nonzero(&self) -> Self {
        let counted = or_panic(convert(&truth(self), DType::I32));
        or_panic(sum(&counted, &all_axes(self)))
    }

    /// Returns the number of elements along `axes` that are true or nonzero, as i32. `axes` are removed.
    ///
    /// # Panics
    /// Panics if an axis is out of range, or given twice.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[0, 1], [2, 3]]).count_nonzero_axes([1]), Tensor::from([1, 2]));
    /// ```
    #[must_use]
    #[panicking_twin(count_nonzero_axes, Axis | Shape)]
    #[track_caller]
    pub fn try_count_nonzero_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let axes = axes_of("count", self.info(), axes.as_ref())?;
        sum(&convert(&truth(self), DType::I32)?, &axes)
    }
}
