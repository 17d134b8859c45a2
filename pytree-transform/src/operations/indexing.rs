//! Basic indexing as in NumPy, and reading at indices that are elements of another tensor.

mod plan;
mod take_modes;

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::Comparison;

use self::plan::Bounds;
use crate::base::error::{TensorError, called, or_panic};
use crate::operations::axes::axis_of;
use crate::operations::reduce::wide_integers;
use crate::primitives::convert::convert;
use crate::primitives::elementwise::compare;
use crate::primitives::gather;
use crate::tensor::Tensor;

pub use self::plan::Index;
pub(super) use self::plan::Plan;
pub use self::take_modes::TakeMode;

/// A range with a step: `Step(0..6, 2)` is NumPy's `0:6:2`.
///
/// A negative step selects from the last element of the range backward, as in ndarray. `Step(.., -1)` is NumPy's
/// `::-1`, and `Step(1..4, -1)` is `3:0:-1`.
#[derive(Clone, Copy, Debug)]
pub struct Step<R>(pub R, pub isize);

/// Builds the indices of [`Tensor::index`], one for each axis. An index is a position, a range, a [`Step`],
/// [`Index::Ellipsis`] or [`Index::NewAxis`].
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, indexing::{Index, Step}, ix};
/// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
/// assert_eq!(x.index(ix![0]), Tensor::from([1, 2, 3]));
/// assert_eq!(x.index(ix![.., -1]), Tensor::from([3, 6]));
/// assert_eq!(x.index(ix![1, 0..2]), Tensor::from([4, 5]));
/// assert_eq!(x.index(ix![Index::Ellipsis, Step(.., -2)]), Tensor::from([[3, 1], [6, 4]]));
/// ```
#[doc(alias = "jnp.s_")]
#[macro_export]
macro_rules! ix {
    ($($index:expr),* $(,)?) => {
        [$($crate::indexing::Index::from($index)),*]
    };
}

fn from_bounds((start, end): Bounds, step: isize) -> Index {
    Index::Range { start, end, step }
}

macro_rules! ranges {
    ($([$($generics:tt)*] $range:ty, |$given:pat_param| $bounds:expr;)*) => {$(
        impl $($generics)* From<$range> for Index {
            fn from($given: $range) -> Self {
                from_bounds($bounds, 1)
            }
        }
        impl $($generics)* From<Step<$range>> for Index {
            fn from(Step($given, step): Step<$range>) -> Self {
                from_bounds($bounds, step)
            }
        }
    )*};
}

/// A Rust number that can be converted to a position on an axis. A number greater than `isize::MAX` becomes
/// `isize::MAX`.
trait Position: Copy {
    fn position(self) -> isize;
}

macro_rules! positions {
    ($($number:ty),*) => {$(
        impl Position for $number {
            fn position(self) -> isize {
                isize::try_from(self).unwrap_or(isize::MAX)
            }
        }
        impl From<$number> for Index {
            fn from(position: $number) -> Self {
                Self::At(position.position())
            }
        }
        ranges! {
            [] Range<$number>, |Range { start, end }| (Some(start.position()), Bound::Excluded(end.position()));
            [] RangeInclusive<$number>, |range| (Some(range.start().position()), Bound::Included(range.end().position()));
            [] RangeTo<$number>, |RangeTo { end }| (None, Bound::Excluded(end.position()));
            [] RangeToInclusive<$number>, |RangeToInclusive { end }| (None, Bound::Included(end.position()));
            [] RangeFrom<$number>, |RangeFrom { start }| (Some(start.position()), Bound::Unbounded);
        }
    )*};
}
positions!(isize, i32, usize);
ranges! { [] RangeFull, |RangeFull| (None, Bound::Unbounded); }

/// The indices that [`Tensor::index`] and [`Tensor::at`] take: a list of [`Index`], which [`ix!`](crate::ix) builds.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of indices of a tensor",
    label = "expected `ix![…]`",
    note = "write `x.index(ix![0, 1])` for the element in row 0 and column 1, and `x.index(ix![0])` for row 0",
    note = "write `x.take(&Tensor::from([0, 1]), 0)` for the rows 0 and 1"
)]
pub trait Indices {
    /// Returns the index of each axis.
    fn indices(&self) -> &[Index];
}

impl Indices for [Index] {
    fn indices(&self) -> &[Index] {
        self
    }
}

impl<const N: usize> Indices for [Index; N] {
    fn indices(&self) -> &[Index] {
        self
    }
}

impl Indices for Vec<Index> {
    fn indices(&self) -> &[Index] {
        self
    }
}

impl<I: Indices + ?Sized> Indices for &I {
    fn indices(&self) -> &[Index] {
        (**self).indices()
    }
}

/// A trait without implementations, whose message says how a tensor is indexed.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a tensor cannot be indexed by `{Self}` in brackets",
    label = "`x[…]` would have to borrow a part of the tensor, but a part is a tensor of its own",
    note = "write `x.index(ix![0])` for row 0, `x.index(ix![0, 1..])` for a part of it, and `x.index(ix![0, 1]).item::<f32>()` for a number",
    note = "write `x = x.at(ix![0]).set(2.0)` instead of `x[0] = 2.0`"
)]
pub trait Bracketed {}

impl<I: Bracketed> std::ops::Index<I> for Tensor {
    type Output = Self;

    fn index(&self, _: I) -> &Self {
        self
    }
}

impl Tensor {
    /// Returns the part of the tensor that the indices select. Index `i` selects positions of axis `i`. Axes without an
    /// index are kept whole. [`ix!`](crate::ix) builds the indices from positions and ranges, which have the same
    /// meaning as in NumPy.
    ///
    /// # Panics
    /// Panics if a position is out of range, or if there are more indices than axes.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, ix};
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.index(ix![1, 2]), Tensor::from(6));
    /// assert_eq!(x.index(ix![.., 1..]), Tensor::from([[2, 3], [5, 6]]));
    /// ```
    #[doc(alias("lax.slice", "torch.narrow"))]
    #[must_use]
    #[panicking_twin(index, Shape)]
    #[track_caller]
    pub fn try_index(&self, indices: impl Indices) -> Result<Self, TensorError> {
        Plan::new(self.info(), indices.indices())?.part(self)
    }

    /// Returns the slices along `axis` at `indices`, an integer tensor of any shape. In the result, the axes of
    /// `indices` replace `axis`.
    ///
    /// A negative index counts from the end. An index out of range is clamped to the nearest end, as in JAX's
    /// `x.at[indices].get(mode="clip")`.
    ///
    /// # Panics
    /// Panics if `axis` is out of range, or if `indices` does not contain integers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4], [5, 6]]);
    /// assert_eq!(x.take(&Tensor::from([2, 0]), 0), Tensor::from([[5, 6], [1, 2]]));
    /// assert_eq!(x.take(&Tensor::from(-1), 0), Tensor::from([5, 6]));
    /// ```
    #[doc(alias("jnp.take", "torch.index_select"))]
    #[must_use]
    #[panicking_twin(take, Axis | DType | Shape)]
    #[track_caller]
    pub fn try_take(&self, indices: &Self, axis: isize) -> Result<Self, TensorError> {
        let axis = axis_of("take from", self.info(), axis)?;
        gather::take(self, indices, axis)
    }

    /// Replaces each integer element by a vector of length `classes`, along a new last axis. The vector is 1 at the
    /// position that equals the element, and 0 elsewhere. For an element that is out of range, the whole vector is 0.
    ///
    /// # Panics
    /// Panics if the elements are not integers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// let labels = Tensor::from([1, 0]);
    /// assert_eq!(labels.one_hot(2, DType::F64), Tensor::from([[0.0, 1.0], [1.0, 0.0]]));
    /// ```
    #[doc(alias("jax.nn.one_hot", "F.one_hot"))]
    #[must_use]
    #[track_caller]
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Self {
        let _called = called("one_hot");
        if self.dtype().is_float() || self.dtype() == DType::Bool {
            let error = TensorError::dtype("one_hot", &[self.info()], "integers");
            return or_panic(Err(error));
        }
        // A narrow dtype may hold each index, but not each class.
        let indices = or_panic(wide_integers(self));
        let positions = Self::arange(indices.dtype(), classes);
        let hot = or_panic(compare(
            Comparison::Eq,
            &indices.expand_dims(-1),
            &positions,
        ));
        or_panic(convert(&hot, dtype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(shape: &[usize]) -> Tensor {
        Tensor::arange(DType::I32, shape.iter().product()).reshape(shape)
    }

    #[test]
    fn ranges_match_python() {
        for (start, end, step) in (-6..=6)
            .flat_map(|s| (-6..=6).flat_map(move |e| [-3_isize, -2, -1, 1, 2].map(|k| (s, e, k))))
        {
            // The reference selects the positions from start to end as Python does. Then it takes every |step|-th of
            // these positions, beginning with the last if the step is negative.
            let shifted = |position: isize| if position < 0 { position + 4 } else { position };
            let mut expected: Vec<i32> = (0..4)
                .filter(|&p| shifted(start) <= p && p < shifted(end))
                .map(|p| i32::try_from(p).unwrap())
                .collect();
            if step < 0 {
                expected.reverse();
            }
            let expected: Vec<i32> = expected.into_iter().step_by(step.unsigned_abs()).collect();
            let index = Index::Range {
                start: Some(start),
                end: Bound::Excluded(end),
                step,
            };
            assert_eq!(
                numbers(&[4]).index([index]).to_vec::<i32>(),
                expected,
                "{start}:{end} in steps of {step}"
            );
        }
    }

    #[test]
    fn inclusive_ranges_contain_their_end() {
        let x = numbers(&[4]);
        assert_eq!(x.index(ix![1..=2]), Tensor::from([1, 2]));
        assert_eq!(x.index(ix![..=-1]), x);
        assert_eq!(x.index(ix![Step(1..=3, -2)]), Tensor::from([3, 1]));
    }

    #[test]
    fn index_removes_adds_and_reverses_axes() {
        let x = numbers(&[2, 3, 4]);
        assert_eq!(
            x.index(ix![1, Index::Ellipsis, 0]).to_vec::<i32>(),
            [12, 16, 20]
        );
        assert_eq!(x.index(ix![Index::NewAxis, 0]).shape(), [1, 3, 4]);
        assert_eq!(x.index(ix![0, Step(.., -2), 3]).to_vec::<i32>(), [11, 3]);
        assert_eq!(x.index(ix![.., 5.., ..]).shape(), [2, 0, 4]);
        assert_eq!(x.index(ix![]), x);
        assert_eq!(x.index(ix![0, -3, 2_usize]), Tensor::from(2));
    }

    #[test]
    fn out_of_range_position_is_an_error() {
        let error = numbers(&[2, 3]).try_index(ix![0, 3]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot index i32[2,3]: position 3 is out of range on axis 1, which has length 3; use a position from -3 to 2"
        );
        let error = numbers(&[2]).try_index(ix![0, 0]).unwrap_err();
        assert!(
            error.to_string().contains("there are 2 indices for 1 axes"),
            "{error}"
        );
    }

    #[test]
    fn one_hot_of_invalid_class_is_zeros() {
        let many = Tensor::from([3_u8]).one_hot(300, DType::I32);
        assert_eq!(many.argmax(-1), Tensor::from([3]));
        assert_eq!(
            Tensor::from([2, -1]).one_hot(2, DType::I32),
            Tensor::from([[0, 0], [0, 0]])
        );
    }
}
