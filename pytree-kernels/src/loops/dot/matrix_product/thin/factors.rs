//! The factors of a product with few rows or columns: a few lines and many.

use super::leaves::Neighbours;
use super::numbers::Numbers;
use crate::base::target::Target;
use crate::loops::dot::matrix_product::loops::LoopAxis;
use crate::loops::dot::matrix_product::stored::{Stored, Write};

/// The lines of an operand along the depth: the rows of the left operand, or the columns of the right one.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub(super) count: usize,
    /// The distance between neighbouring lines in the operand.
    pub(super) stride: usize,
    /// The distance between neighbouring elements of a line.
    pub(super) depth: usize,
    /// The distance between neighbouring lines in the result.
    pub(super) result: usize,
}

impl Lines {
    pub(super) fn of_left(rows: &LoopAxis, depth: &LoopAxis) -> Self {
        Self {
            count: rows.length,
            stride: rows.left,
            depth: depth.left,
            result: rows.result,
        }
    }

    pub(super) fn of_right(columns: &LoopAxis, depth: &LoopAxis) -> Self {
        Self {
            count: columns.length,
            stride: columns.right,
            depth: depth.right,
            result: columns.result,
        }
    }

    /// Returns whether the elements at a step of neighbouring lines are neighbours in memory.
    pub(super) fn are_across(&self) -> bool {
        self.stride == 1 && self.count > 1
    }
}

/// The few lines of a product as numbers of the type of sums.
#[derive(Clone, Copy)]
pub(super) struct Few<'a, S> {
    pub(super) lines: Neighbours<'a, S>,
    /// The distance between neighbouring lines in the result.
    pub(super) result: usize,
}

/// An operand of the product.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a, E> {
    pub(super) elements: &'a [E],
    pub(super) lines: Lines,
}

/// The factors of a product: a few lines, and many lines with the numbers that their elements represent.
#[derive(Clone, Copy)]
pub(super) struct Factors<'a, S, N: Numbers<S>> {
    pub(super) few: Few<'a, S>,
    pub(super) many: Operand<'a, N::Element>,
    pub(super) numbers: N,
    pub(super) depth: usize,
}

impl<S, N: Numbers<S>> Factors<'_, S, N> {
    /// Writes the numbers of one of the many lines.
    pub(super) fn copy_line(&self, line: usize, to: &mut [S]) {
        let Lines { stride, depth, .. } = self.many.lines;
        let elements = &self.many.elements[line * stride..];
        if depth == 1 {
            let lines = line..line + 1;
            return self
                .numbers
                .copy(&elements[..to.len()], lines, 0..to.len(), to);
        }
        for (step, (number, &element)) in to
            .iter_mut()
            .zip(elements.iter().step_by(depth))
            .enumerate()
        {
            *number = self.numbers.one(element, line, step);
        }
    }
}

/// Where the sums of a product are written.
pub(super) trait Results<S> {
    /// Rounds sums, and writes them to elements that are `stride` apart, beginning at a position.
    fn store(&mut self, position: usize, stride: usize, sums: &[S]);
}

impl<E: Stored> Results<E::Sum> for (Target<'_, E>, Write) {
    fn store(&mut self, position: usize, stride: usize, sums: &[E::Sum]) {
        let (target, write) = self;
        write.sums(sums, target.from(position), stride);
    }
}

/// A function of the factors of a product.
pub(super) type Call<'a, S, N> = &'a dyn Fn(Factors<'_, S, N>);
