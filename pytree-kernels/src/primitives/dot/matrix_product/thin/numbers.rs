//! The numbers that the elements of the long operand represent.

use std::marker::PhantomData;

use pytree_base::bug::expect_some;

use super::LANES;
use crate::base::dtype::ArrayElement;
use crate::primitives::dot::matrix_product::Stored;

/// Turns elements of the long operand into numbers. An element is at a step of the depth in one of the lines.
pub(super) trait Numbers<S>: Copy {
    /// The type of the stored elements.
    type Element: ArrayElement;

    /// Returns the number of an element.
    fn one(self, element: Self::Element, line: usize, step: usize) -> S;

    /// Returns the numbers of neighbours in a line, of which the first is at `step`.
    fn along(self, elements: &[Self::Element; LANES], line: usize, step: usize) -> [S; LANES];

    /// Returns the numbers of elements at a step of neighbouring lines, of which the first is `line`.
    fn across(self, elements: &[Self::Element; LANES], line: usize, step: usize) -> [S; LANES];
}

/// The elements themselves, in the type of sums.
#[derive(Clone, Copy)]
pub(super) struct Wide<E>(pub(super) PhantomData<E>);

impl<E: Stored> Numbers<E::Sum> for Wide<E> {
    type Element = E;

    #[inline(always)]
    fn one(self, element: E, _: usize, _: usize) -> E::Sum {
        element.wide()
    }

    #[inline(always)]
    fn along(self, elements: &[E; LANES], _: usize, _: usize) -> [E::Sum; LANES] {
        std::array::from_fn(|lane| elements[lane].wide())
    }

    #[inline(always)]
    fn across(self, elements: &[E; LANES], _: usize, _: usize) -> [E::Sum; LANES] {
        std::array::from_fn(|lane| elements[lane].wide())
    }
}

/// 8-bit integers times scales: one for each step, or else one for each line.
#[derive(Clone, Copy)]
pub(super) struct Scaled<'a, const OF_STEPS: bool>(pub(super) &'a [f32]);

impl<const OF_STEPS: bool> Scaled<'_, OF_STEPS> {
    #[inline(always)]
    fn neighbours(&self, first: usize) -> &[f32; LANES] {
        expect_some(self.0[first..].first_chunk(), "a scale for each integer")
    }
}

impl<const OF_STEPS: bool> Numbers<f32> for Scaled<'_, OF_STEPS> {
    type Element = i8;

    #[inline(always)]
    fn one(self, integer: i8, line: usize, step: usize) -> f32 {
        f32::from(integer) * self.0[if OF_STEPS { step } else { line }]
    }

    #[inline(always)]
    fn along(self, integers: &[i8; LANES], line: usize, step: usize) -> [f32; LANES] {
        if OF_STEPS {
            let scales = self.neighbours(step);
            std::array::from_fn(|lane| f32::from(integers[lane]) * scales[lane])
        } else {
            let scale = self.0[line];
            std::array::from_fn(|lane| f32::from(integers[lane]) * scale)
        }
    }

    #[inline(always)]
    fn across(self, integers: &[i8; LANES], line: usize, step: usize) -> [f32; LANES] {
        if OF_STEPS {
            let scale = self.0[step];
            std::array::from_fn(|lane| f32::from(integers[lane]) * scale)
        } else {
            let scales = self.neighbours(line);
            std::array::from_fn(|lane| f32::from(integers[lane]) * scales[lane])
        }
    }
}
