//! Boolean reductions: `all`, `any` and counts. A number is true if it is not 0, so NaN is true.

use pytree_derive::panicking_twin;
use pytree_kernels::base::array::fits_memory;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::Comparison;
use pytree_kernels::loops::reduction::Reduction;

use crate::base::error::{TensorError, or_panic};
use crate::operations::axes::{TensorAxes, axes_of};
use crate::operations::reduce::{all_axes, reductions};
use crate::primitives::elementwise::compare;
use crate::primitives::reduce::{reduce_as, sum_as};
use crate::tensor::Tensor;

/// Returns whether each element is true or nonzero.
#[track_caller]
fn truth(tensor: &Tensor) -> Tensor {
    if tensor.dtype() == DType::Bool {
        return tensor.clone();
    }
    let zero = Tensor::constant(tensor.dtype(), 0.0);
    or_panic(compare(Comparison::Ne, tensor, &zero))
}

#[track_caller]
fn all_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    reduce_as(Reduction::And, DType::Bool, tensor, axes)
}

#[track_caller]
fn any_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    reduce_as(Reduction::Or, DType::Bool, tensor, axes)
}

/// Returns the number of true elements along `axes`, as i32.
#[track_caller]
pub(super) fn count_true(mask: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    let lengths = axes.iter().map(|&axis| mask.shape()[axis]);
    let most = lengths.fold(1, usize::saturating_mul);
    if i32::try_from(most).is_err() && fits_memory(mask.info()) {
        return Err(TensorError::shape(
            "count",
            &[mask.info()],
            format!("a count of {most} does not fit i32, the type of the result"),
            "convert the mask to i64 and take the sum: `.convert(DType::I64).sum()`",
        ));
    }
    sum_as(DType::I32, mask, axes)
}

#[track_caller]
fn count_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    TensorError::composed("count", || count_true(&truth(tensor), axes))
}

reductions! {
    (all_over, "all", " the tensor is traced and its transformation has finished."):

    /// Returns whether every element is true or nonzero, as a scalar. The result is true for an empty tensor.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([true, false]).all(), Tensor::from(false));
    /// ```
    #[doc(alias("jnp.all", "torch.all"))]
    all try_all = all;

    /// Returns whether every element along `axes` is true or nonzero. `axes` are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[true, false], [true, true]]).all_axes([1]), Tensor::from([false, true]));
    /// ```
    #[doc(alias("jnp.all", "torch.all"))]
    all_axes try_all_axes = removed;

    /// Returns whether every element along `axes` is true or nonzero. `axes` are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1.5, 0.0]]).all_keep([1]), Tensor::from([[false]]));
    /// ```
    all_keep try_all_keep = kept;
}

reductions! {
    (any_over, "any", " the tensor is traced and its transformation has finished."):

    /// Returns whether any element is true or nonzero, as a scalar. The result is false for an empty tensor.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([true, false]).any(), Tensor::from(true));
    /// ```
    #[doc(alias("jnp.any", "torch.any"))]
    any try_any = all;

    /// Returns whether any element along `axes` is true or nonzero. `axes` are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[true, false], [false, false]]).any_axes([1]), Tensor::from([true, false]));
    /// ```
    #[doc(alias("jnp.any", "torch.any"))]
    any_axes try_any_axes = removed;

    /// Returns whether any element along `axes` is true or nonzero. `axes` are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[0, 3]]).any_keep([1]), Tensor::from([[true]]));
    /// ```
    any_keep try_any_keep = kept;
}

reductions! {
    (count_over, "count", " a count may not fit i32, or the tensor is traced and its transformation has finished."):

    /// Returns the number of elements that are true or nonzero, as a scalar i32.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([0.0, 1.5, -2.0]).count_nonzero(), Tensor::from(2));
    /// ```
    #[doc(alias("jnp.count_nonzero", "torch.count_nonzero"))]
    count_nonzero try_count_nonzero = all;

    /// Returns the number of elements along `axes` that are true or nonzero, as i32. `axes` are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[0, 1], [2, 3]]).count_nonzero_axes([1]), Tensor::from([1, 2]));
    /// ```
    #[doc(alias("jnp.count_nonzero", "torch.count_nonzero"))]
    count_nonzero_axes try_count_nonzero_axes = removed;

    /// Returns the number of elements along `axes` that are true or nonzero, as i32. `axes` are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[0, 1], [2, 3]]).count_nonzero_keep([1]), Tensor::from([[1], [2]]));
    /// ```
    count_nonzero_keep try_count_nonzero_keep = kept;
}
