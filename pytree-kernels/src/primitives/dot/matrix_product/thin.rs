//! Products with few rows or few columns, which read their long operand once and as it is stored.
//!
//! The speed of memory limits such a product: a layer that gets one token reads all its weights. So the threads divide the lines of
//! the long operand, half-precision floats are widened in registers, and memory is requested ahead.
//!
//! An element is the sum of 16 partial sums. Partial sum `l` adds the terms `l`, `l + 16`, `l + 32`, … with fused multiplications, and
//! neighbours at the distances 8, 4, 2 and 1 are added at the end. Nothing else decides the order: neither the layout of an operand,
//! nor the number of threads, nor the other lines. So a transposition may move into a product, and a row of a batch has the bits that
//! it has alone.

#![allow(
    clippy::inline_always,
    clippy::needless_range_loop,
    reason = "only inlined code is compiled for the wide instruction sets, and loops over places of arrays become vectors"
)]

mod numbers;
mod sums;

use std::marker::PhantomData;
use std::ops::Range;

use self::numbers::{Numbers, Scaled, Wide};
use self::sums::{add, sums};
use super::loops::Loops;
use super::{Factor, Stored, Write};
use crate::base::array::{give_back, reused};
use crate::base::dtype::ArrayElement;
use crate::base::instructions::arch;
use crate::base::target::Target;

/// The number of partial sums of an element.
const LANES: usize = 16;

/// The number of lines that are read side by side. The hardware follows this number of streams, and the registers hold their sums.
const LINES: usize = 4;

/// The number of vector registers that hold the sums of two of the few lines and [`LINES`] others.
const MANY_REGISTERS: usize = 32;

/// The number of terms that are added to a partial sum in a register, between a load and a store of this sum.
const TERMS: usize = 8;

/// The number of results whose partial sums are in the caches. Long runs of neighbouring elements are read fastest.
const RESULTS: usize = 4096;

/// A float type in which products are summed.
pub(crate) trait Fused: Factor {
    /// Returns `self` plus the product of `left` and `right`, rounded once.
    fn plus_fused(self, left: Self, right: Self) -> Self;
}

impl Fused for f32 {
    #[inline(always)]
    fn plus_fused(self, left: Self, right: Self) -> Self {
        left.mul_add(right, self)
    }
}

impl Fused for f64 {
    #[inline(always)]
    fn plus_fused(self, left: Self, right: Self) -> Self {
        left.mul_add(right, self)
    }
}

/// The lines of an operand along the depth: the rows of the left operand, or the columns of the right one.
#[derive(Clone, Copy)]
struct Lines<'a, E> {
    elements: &'a [E],
    count: usize,
    /// The distance between neighbouring lines in the operand.
    stride: usize,
    /// The distance between neighbouring elements of a line.
    depth: usize,
    /// The distance between neighbouring lines in the result.
    result: usize,
}

/// Writes a product with few rows or few columns to `target`.
pub(super) fn thin_product<E: Stored<Sum: Fused>>(
    loops: &Loops,
    left: &[E],
    right: &[E],
    target: Target<'_, E>,
    write: Write,
) {
    let (left, right) = lines(loops, left, right);
    let (few, many) = if left.count <= right.count {
        (left, right)
    } else {
        (right, left)
    };
    multiply(
        Wide(PhantomData),
        few,
        many,
        loops.depth.length,
        (target, write),
    );
}

/// Writes the product of a few rows and of 8-bit integers times scales to `target`. There is one scale for each step of the depth if
/// `are_of_steps`, or else one for each column.
pub(in super::super) fn thin_scaled_product(
    loops: &Loops,
    left: &[f32],
    integers: &[i8],
    (scales, are_of_steps): (&[f32], bool),
    target: Target<'_, f32>,
) {
    let (few, many) = lines(loops, left, integers);
    let (depth, to) = (loops.depth.length, (target, Write::Overwrite));
    if are_of_steps {
        multiply(Scaled::<true>(scales), few, many, depth, to);
    } else {
        multiply(Scaled::<false>(scales), few, many, depth, to);
    }
}

/// Returns the lines of both operands.
fn lines<'a, L, R>(loops: &Loops, left: &'a [L], right: &'a [R]) -> (Lines<'a, L>, Lines<'a, R>) {
    let Loops {
        rows,
        columns,
        depth,
        ..
    } = *loops;
    let left = Lines {
        elements: left,
        count: rows.length,
        stride: rows.left,
        depth: depth.left,
        result: rows.result,
    };
    let right = Lines {
        elements: right,
        count: columns.length,
        stride: columns.right,
        depth: depth.right,
        result: columns.result,
    };
    (left, right)
}

/// Writes the product of a few lines with many lines.
fn multiply<E: Stored<Sum: Fused>, N: Numbers<E::Sum>>(
    numbers: N,
    few: Lines<'_, E>,
    many: Lines<'_, N::Element>,
    depth: usize,
    (target, write): (Target<'_, E>, Write),
) {
    let mut gathered = Vec::new();
    let few = if few.depth == 1 {
        few
    } else {
        gathered = reused(few.count * depth);
        for (at, line) in gathered.chunks_exact_mut(depth).enumerate() {
            few.gather(at, line);
        }
        Lines {
            elements: &gathered,
            stride: depth,
            depth: 1,
            ..few
        }
    };
    arch().dispatch(Thin {
        few,
        many,
        numbers,
        depth,
        target,
        write,
    });
    give_back(gathered);
}

impl<'a, E: ArrayElement> Lines<'a, E> {
    /// Copies a line.
    fn gather(&self, line: usize, target: &mut [E]) {
        let source = self.elements[line * self.stride..].iter();
        for (element, &found) in target.iter_mut().zip(source.step_by(self.depth)) {
            *element = found;
        }
    }

    /// Returns a line whose elements are neighbours.
    #[inline(always)]
    fn line(&self, line: usize, depth: usize) -> &'a [E] {
        &self.elements[line * self.stride..][..depth]
    }

    /// Returns `count` neighbours at the position `step` of the lines from the line `first` on.
    #[inline(always)]
    fn across(&self, step: usize, first: usize, count: usize) -> &'a [E] {
        &self.elements[step * self.depth + first..][..count]
    }
}

struct Thin<'a, E: Stored, N: Numbers<E::Sum>> {
    /// A few lines, whose elements are neighbours.
    few: Lines<'a, E>,
    many: Lines<'a, N::Element>,
    /// The numbers that the elements of the many lines represent.
    numbers: N,
    depth: usize,
    target: Target<'a, E>,
    write: Write,
}

impl<E: Stored<Sum: Fused>, N: Numbers<E::Sum>> pulp::WithSimd for Thin<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        if self.many.stride == 1 && self.many.count > 1 {
            self.by_steps();
        } else if self.many.depth == 1 {
            self.by_lines(S::REGISTER_COUNT >= MANY_REGISTERS);
        } else {
            let mut line = reused(self.depth);
            for at in 0..self.many.count {
                self.many.gather(at, &mut line);
                // All lines are this one.
                let many = Lines {
                    elements: &line,
                    stride: 0,
                    depth: 1,
                    ..self.many
                };
                self.multiply_lines::<1>(many, at, false);
            }
            give_back(line);
        }
    }
}

impl<E: Stored<Sum: Fused>, N: Numbers<E::Sum>> Thin<'_, E, N> {
    /// Reads many lines whose elements are neighbours.
    #[inline(always)]
    fn by_lines(&mut self, has_many_registers: bool) {
        let many = self.many;
        let whole = many.count - many.count % LINES;
        for first in (0..whole).step_by(LINES) {
            self.multiply_lines::<LINES>(many, first, has_many_registers);
        }
        for first in whole..many.count {
            self.multiply_lines::<1>(many, first, has_many_registers);
        }
    }

    /// Multiplies `L` neighbouring lines of `many`, of which the first is `first`, by all few lines.
    #[inline(always)]
    fn multiply_lines<const L: usize>(
        &mut self,
        many: Lines<'_, N::Element>,
        first: usize,
        has_many_registers: bool,
    ) {
        let mut few = 0;
        while few < self.few.count {
            few += if has_many_registers && few + 2 <= self.few.count {
                self.multiply_line::<2, L>(many, first, few)
            } else {
                self.multiply_line::<1, L>(many, first, few)
            };
        }
    }

    /// Multiplies `L` neighbouring lines of `many` by `F` of the few lines. Returns `F`.
    #[inline(always)]
    fn multiply_line<const F: usize, const L: usize>(
        &mut self,
        many: Lines<'_, N::Element>,
        first: usize,
        few: usize,
    ) -> usize {
        let lines = std::array::from_fn(|line| self.few.line(few + line, self.depth));
        let sums: [[_; L]; F] = sums(self.numbers, lines, many, first, few == 0);
        for (line, sums) in (few..).zip(&sums) {
            self.store(line, first, sums);
        }
        F
    }

    /// Reads many lines that are neighbours, one step of the depth after the other.
    #[inline(always)]
    fn by_steps(&mut self) {
        let (few, many, depth) = (self.few, self.many, self.depth);
        let width = (RESULTS / few.count).min(many.count);
        let mut partial = reused::<E::Sum>(few.count * LANES * width);
        for first in (0..many.count).step_by(width) {
            let width = width.min(many.count - first);
            let partial = &mut partial[..few.count * LANES * width];
            partial.fill(E::Sum::default());
            for start in (0..depth).step_by(LANES * TERMS) {
                let terms = depth - start;
                for lane in 0..LANES.min(terms) {
                    let sums = &mut partial[lane * few.count * width..][..few.count * width];
                    let steps = start + lane..depth.min(start + LANES * TERMS);
                    let mut line = 0;
                    while line < few.count {
                        let sums = &mut sums[line * width..];
                        line += match few.count - line {
                            4.. => self.add_steps::<4>(line, steps.clone(), first, width, sums),
                            2.. => self.add_steps::<2>(line, steps.clone(), first, width, sums),
                            _ => self.add_steps::<1>(line, steps.clone(), first, width, sums),
                        };
                    }
                }
            }
            let mut half = LANES / 2;
            while half > 0 {
                let (sums, others) = partial.split_at_mut(half * few.count * width);
                for (sum, &other) in sums.iter_mut().zip(&*others) {
                    *sum = sum.plus(other);
                }
                half /= 2;
            }
            for (line, sums) in (0..few.count).zip(partial.chunks_exact(width)) {
                self.store(line, first, sums);
            }
        }
        give_back(partial);
    }

    /// Adds every 16th of some steps to a partial sum of `width` results of `F` of the few lines. Returns `F`.
    #[inline(always)]
    fn add_steps<const F: usize>(
        &self,
        line: usize,
        steps: Range<usize>,
        first: usize,
        width: usize,
        sums: &mut [E::Sum],
    ) -> usize {
        let factor = |few: usize, step: usize| self.few.line(line + few, self.depth)[step].wide();
        let row = |step: usize| self.many.across(step, first, width);
        let mut of_lines = sums.chunks_exact_mut(width);
        let mut sums = std::array::from_fn(|_| of_lines.next().unwrap_or_default());
        let step = |term: usize| steps.start + LANES * term;
        if step(TERMS - 1) < steps.end {
            let factors: [[_; TERMS]; F] =
                std::array::from_fn(|few| std::array::from_fn(|term| factor(few, step(term))));
            let places: [usize; TERMS] = std::array::from_fn(step);
            let rows = places.map(row);
            // The rows of the next partial sum, which the first lines request.
            let next = (steps.start + 1) * self.many.depth + first;
            let ahead = self.many.elements.get(next..).filter(|_| line == 0);
            let ahead = (ahead.unwrap_or_default(), LANES * self.many.depth);
            add(
                self.numbers,
                rows,
                (first, places),
                factors,
                &mut sums,
                ahead,
            );
        } else {
            for step in steps.step_by(LANES) {
                let factors: [_; F] = std::array::from_fn(|few| [factor(few, step)]);
                add(
                    self.numbers,
                    [row(step)],
                    (first, [step]),
                    factors,
                    &mut sums,
                    (&[], 0),
                );
            }
        }
        F
    }

    /// Writes results of one of the few lines.
    #[inline(always)]
    fn store(&mut self, few: usize, first: usize, sums: &[E::Sum]) {
        for (at, &sum) in (first..).zip(sums) {
            let position = few * self.few.result + at * self.many.result;
            let element = &mut self.target.slice_mut(position, 1)[0];
            *element = match self.write {
                Write::Overwrite => E::rounded(sum),
                Write::Add => E::rounded(element.wide().plus(sum)),
            };
        }
    }
}
