//! The numbers that the elements of the long operand represent. Loops read most elements as they are stored, and widen them in
//! registers. Others are copied first, some at a time.

use std::marker::PhantomData;
use std::ops::Range;

use pytree_base::bug::expect_some;

use super::fused::{Fused, LANES};
use crate::base::dtype::ArrayElement;
use crate::base::instructions::leaf;
use crate::loops::dot::matrix_product::stored::Stored;

/// Turns elements of the long operand into numbers. An element is at a step of the depth in one of the lines.
pub(super) trait Numbers<S>: Copy + Send + Sync {
    /// The type of the stored elements.
    type Element: ArrayElement;

    /// Whether loops read neighbouring elements as they are stored.
    const ARE_READ: bool;

    /// Returns the number of an element.
    fn one(self, element: Self::Element, line: usize, step: usize) -> S;

    /// Returns the numbers of neighbours in a line, of which the first is at `step`.
    fn along(self, elements: &[Self::Element; LANES], line: usize, step: usize) -> [S; LANES];

    /// Returns the numbers of elements at a step of neighbouring lines, of which the first is `line`.
    fn across(self, elements: &[Self::Element; LANES], line: usize, step: usize) -> [S; LANES];

    /// Writes the numbers of neighbours, all in a line or all at a step.
    fn copy(
        self,
        elements: &[Self::Element],
        lines: Range<usize>,
        steps: Range<usize>,
        to: &mut [S],
    );
}

/// The elements themselves, in the type of sums.
#[derive(Clone, Copy)]
pub(super) struct Wide<E>(PhantomData<E>);

impl<E> Wide<E> {
    pub(super) const NEW: Self = Self(PhantomData);
}

impl<E: Stored<Sum: Fused>> Numbers<E::Sum> for Wide<E> {
    type Element = E;

    const ARE_READ: bool = E::IS_READ;

    #[inline(always)]
    fn one(self, element: E, _: usize, _: usize) -> E::Sum {
        element.wide()
    }

    #[inline(always)]
    fn along(self, elements: &[E; LANES], _: usize, _: usize) -> [E::Sum; LANES] {
        let mut numbers = [E::Sum::default(); LANES];
        for lane in 0..LANES {
            numbers[lane] = elements[lane].wide();
        }
        numbers
    }

    #[inline(always)]
    fn across(self, elements: &[E; LANES], line: usize, step: usize) -> [E::Sum; LANES] {
        self.along(elements, line, step)
    }

    fn copy(self, elements: &[E], _: Range<usize>, _: Range<usize>, to: &mut [E::Sum]) {
        E::widen(elements, to);
    }
}

/// 8-bit integers times scales: one for each step, or else one for each line.
#[derive(Clone, Copy)]
pub(super) struct Scaled<'a, const OF_STEPS: bool>(pub(super) &'a [f32]);

impl<const OF_STEPS: bool> Scaled<'_, OF_STEPS> {
    #[inline(always)]
    fn scaled_by_neighbours(self, integers: &[i8; LANES], first: usize) -> [f32; LANES] {
        let scales = self.0[first..].first_chunk::<LANES>();
        let scales = expect_some(scales, "a scale for each integer");
        let mut numbers = [0.0; LANES];
        for lane in 0..LANES {
            numbers[lane] = f32::from(integers[lane]) * scales[lane];
        }
        numbers
    }

    #[inline(always)]
    fn scaled(self, integers: &[i8; LANES], place: usize) -> [f32; LANES] {
        let scale = self.0[place];
        let mut numbers = [0.0; LANES];
        for lane in 0..LANES {
            numbers[lane] = f32::from(integers[lane]) * scale;
        }
        numbers
    }
}

impl<const OF_STEPS: bool> Numbers<f32> for Scaled<'_, OF_STEPS> {
    type Element = i8;

    const ARE_READ: bool = true;

    #[inline(always)]
    fn one(self, integer: i8, line: usize, step: usize) -> f32 {
        f32::from(integer) * self.0[if OF_STEPS { step } else { line }]
    }

    #[inline(always)]
    fn along(self, integers: &[i8; LANES], line: usize, step: usize) -> [f32; LANES] {
        if OF_STEPS {
            self.scaled_by_neighbours(integers, step)
        } else {
            self.scaled(integers, line)
        }
    }

    #[inline(always)]
    fn across(self, integers: &[i8; LANES], line: usize, step: usize) -> [f32; LANES] {
        if OF_STEPS {
            self.scaled(integers, step)
        } else {
            self.scaled_by_neighbours(integers, line)
        }
    }

    fn copy(self, integers: &[i8], lines: Range<usize>, steps: Range<usize>, to: &mut [f32]) {
        scale(integers, &self.0[if OF_STEPS { steps } else { lines }], to);
    }
}

/// Writes the products of integers and scales, or of integers and a single scale.
pub(in crate::loops::dot) fn scale(integers: &[i8], scales: &[f32], numbers: &mut [f32]) {
    if let [scale] = *scales {
        leaf! {
            for (number, &integer) in numbers.iter_mut().zip(integers) {
                *number = f32::from(integer) * scale;
            }
        }
    } else {
        leaf! {
            for ((number, &integer), &scale) in numbers.iter_mut().zip(integers).zip(scales) {
                *number = f32::from(integer) * scale;
            }
        }
    }
}
