//! The shape of a tensor, and lists of numbers for its axes. Up to four axes need no allocation.
//!
//! A [`Shape`] contains only the lengths of all axes of a tensor. Axes, strides and the bounds of slices have other
//! types, which are not part of the public interface.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

/// Positions of axes, for instance the reduced axes of a sum, or a permutation.
pub type AxisList = SmallVec<[usize; 4]>;

/// One number for each axis, for instance strides, the bounds of a slice, or the sizes of a window.
pub type PerAxis<N = usize> = SmallVec<[N; 4]>;

/// Returns the shape without the axes `axes`.
#[inline]
pub fn without_axes(shape: &[usize], axes: &[usize]) -> Shape {
    (0..shape.len())
        .filter(|axis| !axes.contains(axis))
        .map(|axis| shape[axis])
        .collect()
}

/// Returns the permutation of positions that sorts `keys`.
#[inline]
pub fn sorting_permutation(keys: &[usize]) -> AxisList {
    let mut positions: AxisList = (0..keys.len()).collect();
    positions.sort_by_key(|&position| keys[position]);
    positions
}

/// The length of each axis of a tensor.
///
/// A `Shape` dereferences to a slice of the lengths. A `Shape` equals slices, arrays and vectors with the same lengths.
///
/// # Examples
/// ```
/// use pytree_kernels::base::shape::Shape;
/// let mut shape = Shape::from([2, 3]);
/// shape.insert(1, 4);
/// assert_eq!(shape, [2, 4, 3]);
/// assert_eq!(shape.iter().product::<usize>(), 24);
/// ```
#[derive(Default, Eq)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// Creates the shape of a scalar, without axes.
    #[inline]
    pub fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Returns the lengths as a slice.
    #[inline]
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// Adds an axis of the given length after the last axis.
    #[inline]
    pub fn push(&mut self, length: usize) {
        self.0.push(length);
    }

    /// Inserts an axis of the given length, which becomes axis `axis`.
    ///
    /// # Panics
    /// Panics if `axis` is greater than the number of axes.
    #[inline]
    #[track_caller]
    pub fn insert(&mut self, axis: usize, length: usize) {
        let rank = self.0.len();
        assert!(
            axis <= rank,
            "cannot insert an axis at {axis} of a shape with {rank} axes; pass at most {rank}"
        );
        self.0.insert(axis, length);
    }

    /// Removes axis `axis`. Returns the length of this axis.
    ///
    /// # Panics
    /// Panics if `axis` is out of range.
    #[inline]
    #[track_caller]
    pub fn remove(&mut self, axis: usize) -> usize {
        let rank = self.0.len();
        assert!(
            axis < rank,
            "cannot remove axis {axis} of a shape with {rank} axes; pass an axis below {rank}"
        );
        self.0.remove(axis)
    }
}

impl Clone for Shape {
    /// Copies all lengths in one operation. The `clone` of a `SmallVec` copies the lengths one by one.
    #[inline]
    fn clone(&self) -> Self {
        Self::from(self.as_slice())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for Shape {
    type Target = [usize];

    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl DerefMut for Shape {
    #[inline]
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }
}

impl AsRef<[usize]> for Shape {
    #[inline]
    fn as_ref(&self) -> &[usize] {
        self
    }
}

impl Hash for Shape {
    /// Hashes the lengths like a slice.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

pytree_base::conversions! { Shape:
    [] &[usize], |lengths| Self(SmallVec::from_slice(lengths));
    [const N: usize] [usize; N], |lengths| Self(SmallVec::from_slice(&lengths));
    [] Vec<usize>, |lengths| Self(SmallVec::from_vec(lengths));
}

impl FromIterator<usize> for Shape {
    #[inline]
    fn from_iter<I: IntoIterator<Item = usize>>(lengths: I) -> Self {
        Self(lengths.into_iter().collect())
    }
}

impl Extend<usize> for Shape {
    #[inline]
    fn extend<I: IntoIterator<Item = usize>>(&mut self, lengths: I) {
        self.0.extend(lengths);
    }
}

/// An iterator over the lengths of a [`Shape`], by value. See [`IntoIterator`].
#[derive(Clone, Debug)]
pub struct Lengths(smallvec::IntoIter<[usize; 4]>);

impl Iterator for Lengths {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.0.next()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Lengths {
    #[inline]
    fn next_back(&mut self) -> Option<usize> {
        self.0.next_back()
    }
}

impl ExactSizeIterator for Lengths {}

impl std::iter::FusedIterator for Lengths {}

impl IntoIterator for Shape {
    type Item = usize;
    type IntoIter = Lengths;

    #[inline]
    fn into_iter(self) -> Lengths {
        Lengths(self.0.into_iter())
    }
}

impl<'a> IntoIterator for &'a Shape {
    type Item = &'a usize;
    type IntoIter = std::slice::Iter<'a, usize>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

/// Implements `==` between shapes and other lists of lengths, in both directions.
macro_rules! compared_with {
    ($([$($generics:tt)*] $other:ty),*) => {$(
        impl<$($generics)*> PartialEq<$other> for Shape {
            #[inline]
            fn eq(&self, other: &$other) -> bool {
                let other: &[usize] = other.as_ref();
                self.as_slice() == other
            }
        }
        impl<$($generics)*> PartialEq<Shape> for $other {
            #[inline]
            fn eq(&self, other: &Shape) -> bool {
                other == self
            }
        }
    )*};
}
compared_with!([] [usize], [] &[usize], [const N: usize] [usize; N], [] Vec<usize>);

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn shape_equals_other_lists_of_lengths() {
        let shape = Shape::from([2, 3]);
        let slice: &[usize] = &[2, 3];
        assert_eq!(shape, [2, 3]);
        assert_eq!([2, 3], shape);
        assert_eq!(shape, slice);
        assert_eq!(slice, shape);
        assert_eq!(shape, *slice);
        assert_eq!(shape, vec![2, 3]);
        assert_eq!(vec![2, 3], shape);
        assert_ne!(shape, [2, 3, 1]);
        assert_ne!(shape, Shape::new());
    }

    #[test]
    fn shape_hashes_like_a_slice() {
        let (state, lengths) = (std::hash::RandomState::new(), [7, 0, 1, 5, 9]);
        assert_eq!(
            state.hash_one(Shape::from(lengths)),
            state.hash_one(&lengths[..])
        );
    }

    #[test]
    fn shape_displays_like_a_slice_in_messages() {
        assert_eq!(format!("{:?}", Shape::from([2, 3])), "[2, 3]");
        assert_eq!(format!("{:?}", Shape::new()), "[]");
    }

    #[test]
    fn lengths_survive_conversions_in_order() {
        for lengths in [vec![], vec![3], vec![1, 2, 3, 4], vec![9, 8, 7, 6, 5, 4]] {
            let shape = Shape::from(lengths.clone());
            assert_eq!(Shape::from(lengths.as_slice()), shape);
            assert_eq!(lengths.iter().copied().collect::<Shape>(), shape);
            assert_eq!((&shape).into_iter().copied().collect::<Vec<_>>(), lengths);
            let backwards: Vec<usize> = shape.clone().into_iter().rev().collect();
            assert_eq!(shape.into_iter().len(), lengths.len());
            assert_eq!(backwards.into_iter().rev().collect::<Vec<_>>(), lengths);
        }
    }
}
