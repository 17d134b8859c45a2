//! Sorting along an axis, and reading along an axis at the indices in another tensor.
//!
//! The gradient of a sorted element is added at the original position of the element.

use std::panic::Location;

use pytree_derive::panicking_twin;
use pytree_kernels::base::pattern::common_shape;
use pytree_kernels::loops::elementwise::Comparison;
use pytree_kernels::loops::sort::Sorted;

use crate::base::error::{TensorError, called};
use crate::operations::axes::axis_of;
use crate::operations::logic::count_true;
use crate::primitives::create::broadcast_to;
use crate::primitives::elementwise::compare;
use crate::primitives::gather::{take_along, take_along_last};
use crate::primitives::sort::{greatest, sort};
use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;

impl Tensor {
    /// Sorts the elements along `axis` in ascending order. The sort is stable, and NaN is last.
    ///
    /// # Panics
    /// Panics if `axis` is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[3, 1, 2], [0, 5, 4]]).sort(-1), Tensor::from([[1, 2, 3], [0, 4, 5]]));
    /// ```
    #[doc(alias("jnp.sort", "torch.sort"))]
    #[panicking_twin(sort, Axis)]
    pub fn try_sort(&self, axis: isize) -> Result<Self, TensorError> {
        let _called = called("sort");
        sort(Sorted::Elements, self, axis_of("sort", self.info(), axis)?)
    }

    /// Returns the i32 indices that sort the tensor along `axis` in ascending order. The sort is stable, and NaN is
    /// last.
    ///
    /// # Panics
    /// Panics if `axis` is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([3.0, 1.0, 2.0, 1.0]).argsort(0), Tensor::from([1, 3, 2, 0]));
    /// ```
    #[doc(alias("jnp.argsort", "torch.argsort"))]
    #[panicking_twin(argsort, Axis)]
    pub fn try_argsort(&self, axis: isize) -> Result<Self, TensorError> {
        sort(
            Sorted::Positions,
            self,
            axis_of("argsort", self.info(), axis)?,
        )
    }

    /// Returns the `k` greatest elements along the last axis, in descending order, and their indices as i32.
    ///
    /// Equal elements keep their order. NaN is greater than all numbers. Equivalent to `jax.lax.top_k`.
    ///
    /// # Panics
    /// Panics if there is no axis, or if the last axis is shorter than `k`.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let (values, indices) = Tensor::from([[3, 9, 4], [6, 5, 6]]).top_k(2);
    /// assert_eq!(values, Tensor::from([[9, 4], [6, 6]]));
    /// assert_eq!(indices, Tensor::from([[1, 2], [0, 2]]));
    /// ```
    #[doc(alias("lax.top_k", "torch.topk"))]
    #[must_use]
    #[panicking_twin(top_k, Axis | Shape)]
    pub fn try_top_k(&self, k: usize) -> Result<(Self, Self), TensorError> {
        let axis = axis_of("top_k", self.info(), -1)?;
        let length = self.shape()[axis];
        if k > length {
            return Err(TensorError::shape(
                "top_k",
                &[self.info()],
                format!("the last axis has {length} elements, fewer than {k}"),
                format!("use a `k` of at most {length}, or move another axis to the end"),
            ));
        }
        let indices = greatest(self, axis, k)?;
        Ok((take_along_last(self, &indices)?, indices))
    }

    /// Returns the elements at `indices` along one axis. For a matrix and axis 1, element `(i, j)` of the result is
    /// `self[i, indices[i, j]]`.
    ///
    /// `indices` has as many axes as the tensor. The axes other than `axis` broadcast. As in [`take`](Self::take), a
    /// negative index counts from the end, and an index out of range is clamped to the nearest end.
    ///
    /// # Panics
    /// Panics if `axis` is out of range, if the numbers of axes differ, if the axes other than `axis` do not broadcast,
    /// or if the indices are not integers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[10, 20], [30, 40]]);
    /// let places = Tensor::from([[1], [0]]);
    /// assert_eq!(x.take_along_axis(&places, 1), Tensor::from([[20], [30]]));
    /// ```
    #[doc(alias("jnp.take_along_axis", "torch.gather"))]
    #[panicking_twin(take_along_axis, Axis | Shape | DType)]
    pub fn try_take_along_axis(&self, indices: &Self, axis: isize) -> Result<Self, TensorError> {
        let place = axis_of("take along an axis of", self.info(), axis)?;
        let others = |tensor: &Self| {
            let mut shape = tensor.info().shape.clone();
            shape.remove(place);
            shape
        };
        let same_rank = self.rank() == indices.rank();
        let shared = same_rank
            .then(|| common_shape([&others(self)[..], &others(indices)].into_iter()))
            .flatten();
        let Some(shared) = shared else {
            return Err(TensorError::shape(
                "take along an axis of",
                &[self.info(), indices.info()],
                format!(
                    "the numbers of axes differ, or the axes other than {place} do not broadcast"
                ),
                "use indices with as many axes as the tensor, of equal length or of length 1, or use `take`",
            ));
        };
        let fitted = |tensor: &Self| {
            let mut shape = shared.clone();
            shape.insert(place, tensor.shape()[place]);
            broadcast_to(tensor, &shape)
        };
        at_line_by_default(Location::caller(), || {
            take_along(&fitted(self)?, &fitted(indices)?, place)
        })
    }

    /// Returns the i32 index at which each value can be inserted into this sorted vector, so that the vector stays
    /// sorted.
    ///
    /// If elements equal the value, the index is before them, as in `jnp.searchsorted` with `side="left"`. The search
    /// compares each value with each element.
    ///
    /// # Panics
    /// Panics if this tensor does not have exactly one axis, or if the dtypes differ.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let edges = Tensor::from([1, 3, 5]);
    /// assert_eq!(edges.searchsorted(&Tensor::from([0, 3, 9])), Tensor::from([0, 1, 3]));
    /// ```
    #[doc(alias("jnp.searchsorted", "torch.searchsorted"))]
    #[panicking_twin(searchsorted, Shape | DType)]
    pub fn try_searchsorted(&self, values: &Self) -> Result<Self, TensorError> {
        let _called = called("searchsorted");
        if self.rank() != 1 {
            return Err(TensorError::shape(
                "searchsorted",
                &[self.info(), values.info()],
                format!("the sorted tensor has {} axes, not 1", self.rank()),
                "flatten the sorted tensor, or use `vmap`",
            ));
        }
        let less = compare(Comparison::Lt, self, &values.expand_dims(-1))?;
        count_true(&less, &[values.rank()])
    }
}
