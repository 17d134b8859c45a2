//! Reductions of truth: all, any, and how many. Numbers are true if they are not 0, NaN with them.

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

/// Whether each element is true, or not 0.
#[track_caller]
fn truth(tensor: &Tensor) -> Tensor {
    if tensor.dtype() == DType::Bool {
        return tensor.clone();
    }
    let zero = Tensor::constant(tensor.dtype(), 0.0);
    or_panic(compare(Comparison::Ne, tensor, &zero))
}

impl Tensor {
    /// Whether every element is true, or not 0, without axes; of nothing it is true.
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
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

    /// Whether every element along some axes is true, or not 0; the axes go.
    ///
    /// # Panics
    /// If there is no such axis, or one is given twice.
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

    /// Whether every element along some axes is true, or not 0; the axes stay with length 1.
    ///
    /// # Panics
    /// As [`all_axes`](Self::all_axes).
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

    /// Whether any element is true, or not 0, without axes; of nothing it is false.
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
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

    /// Whether any element along some axes is true, or not 0; the axes go.
    ///
    /// # Panics
    /// If there is no such axis, or one is given twice.
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

    /// Whether any element along some axes is true, or not 0; the axes stay with length 1.
    ///
    /// # Panics
    /// As [`any_axes`](Self::any_axes).
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

    /// How many elements are true, or not 0, as i32 without axes.
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
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

    /// How many elements along some axes are true, or not 0, as i32; the axes go.
    ///
    /// # Panics
    /// If there is no such axis, or one is given twice.
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
