//! The element types of products, and where a product writes.

use super::loops::Loops;
use crate::base::dtype::ArrayElement;
use crate::base::target::{Region, Target};

/// An element type of the operands of products.
pub(crate) trait Stored: ArrayElement + Send + Sync {
    /// The type in which products are summed.
    type Sum: Factor;

    /// Whether this is a half-precision float type.
    const IS_HALF: bool = false;

    /// Whether products with few rows or columns widen elements in registers, which is slow for f16.
    const IS_READ: bool = true;

    /// Returns the element as a number of the type of sums.
    fn wide(self) -> Self::Sum;

    /// Returns a sum as an element.
    fn rounded(sum: Self::Sum) -> Self;

    /// Returns elements as numbers of the type of sums, if they are such.
    fn sums(elements: &[Self]) -> Option<&[Self::Sum]>;

    /// Writes elements as numbers of the type of sums.
    fn widen(elements: &[Self], numbers: &mut [Self::Sum]);

    /// Writes sums as elements.
    fn narrow(sums: &[Self::Sum], elements: &mut [Self]);

    /// Writes the product of two matrices, whose strides are in the axes of `loops`, to `target`.
    fn matrix_product(
        loops: &Loops,
        left: &[Self],
        right: &[Self],
        target: Target<'_, Self>,
        write: Write,
    );

    /// Divides a matrix product among at most `count` threads by its terms. Returns the target if they should divide its rows or
    /// columns.
    fn parts_of_terms<'a>(
        _: &Loops,
        _: &'a [Self],
        _: &'a [Self],
        target: Target<'a, Self>,
        _: usize,
    ) -> Result<Vec<Part<'a>>, Target<'a, Self>> {
        Err(target)
    }
}

/// An element type in which products are summed.
pub(crate) trait Factor: Stored<Sum = Self> {
    /// Returns `self` plus the product of `left` and `right`.
    fn plus_product(self, left: Self, right: Self) -> Self;

    /// Returns the sum of two elements.
    fn plus(self, other: Self) -> Self;
}

/// A part of a product, which one thread computes. It calls the function with its regions of the result.
pub(crate) type Part<'a> = Box<dyn FnOnce(Option<&(dyn Fn(Region) + Sync)>) + Send + 'a>;

/// Whether a matrix product keeps the old elements of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Overwrites the old elements.
    Overwrite,
    /// Adds the product to the old elements.
    Add,
}

impl Write {
    /// Writes a sum to an element.
    #[inline]
    pub(super) fn sum<T: Stored>(self, sum: T::Sum, element: &mut T) {
        *element = match self {
            Self::Overwrite => T::rounded(sum),
            Self::Add => T::rounded(element.wide().plus(sum)),
        };
    }

    /// Writes sums to elements of `target`, which are `stride` apart.
    pub(super) fn sums<T: Stored>(self, sums: &[T::Sum], mut target: Target<'_, T>, stride: usize) {
        if stride == 1 && self == Self::Overwrite {
            return T::narrow(sums, target.slice_mut(0, sums.len()));
        }
        for (at, &sum) in sums.iter().enumerate() {
            self.sum(sum, &mut target.slice_mut(at * stride, 1)[0]);
        }
    }
}
