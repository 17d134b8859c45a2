//! Products with few rows or few columns, which read their long operand once and as it is stored.
//!
//! The speed of memory limits such a product: a layer that gets one token reads all its weights. So half-precision floats are widened in
//! registers, memory is requested ahead, and each thread reads long runs of it: some lines of the long operand if their elements are
//! neighbours, or else the terms of some [partial sums](lanes).
//!
//! An element is the sum of 16 partial sums. Partial sum `l` adds the terms `l`, `l + 16`, `l + 32`, … with fused multiplications, and
//! neighbours at the distances 8, 4, 2 and 1 are added at the end. Nothing else decides the order: neither the layout of an operand,
//! nor the number of threads, nor the other lines. So a transposition may move into a product, and a row of a batch has the bits that
//! it has alone.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over places of arrays become vectors"
)]

mod lanes;
mod numbers;
mod sums;

use std::marker::PhantomData;

use self::lanes::Factors;
use self::numbers::{Numbers, Scaled, Wide};
use self::sums::sums;
use super::loops::Loops;
use super::{Factor, Part, Stored, Write};
use crate::base::array::{give_back, reused};
use crate::base::dtype::ArrayElement;
use crate::base::instructions::arch;
use crate::base::target::Target;

/// The number of partial sums of an element.
const LANES: usize = 16;

/// The number of lines that are read side by side, so that a chunk of the few lines is read once for all of them.
const LINES: usize = 4;

/// The greatest number of few lines with which the lines are read one after the other. The hardware follows one stream best.
const ONE_BY_ONE: usize = 2;

/// The distance in bytes between an element of a stream and the one that is requested meanwhile.
const AHEAD: usize = 2048;

/// The number of vector registers that hold the sums of two of the few lines and [`LINES`] others.
const MANY_REGISTERS: usize = 32;

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
    let (few, many) = few_and_many(loops, left, right);
    let depth = loops.depth.length;
    multiply(Wide(PhantomData), few, many, depth, (target, write));
}

/// Divides a product with few rows or few columns into at most `count` parts. Returns the target if the threads should divide its lines.
pub(super) fn thin_parts<'a, E: Stored<Sum: Fused>>(
    loops: &Loops,
    left: &'a [E],
    right: &'a [E],
    target: Target<'a, E>,
    count: usize,
) -> Result<Vec<Part<'a>>, Target<'a, E>> {
    let (few, many) = few_and_many(loops, left, right);
    if !lanes::are_divided(loops, few.count, &many) {
        return Err(target);
    }
    let depth = loops.depth.length;
    Ok(lanes::parts(
        Wide(PhantomData),
        few,
        many,
        depth,
        target,
        count,
    ))
}

/// A few rows and 8-bit integers times scales. There is one scale for each step of the depth if `are_of_steps`, or else one for each
/// column.
#[derive(Clone, Copy)]
pub(in super::super) struct ScaledProduct<'a> {
    pub(in super::super) left: &'a [f32],
    pub(in super::super) integers: &'a [i8],
    pub(in super::super) scales: &'a [f32],
    pub(in super::super) are_of_steps: bool,
}

impl<'a> ScaledProduct<'a> {
    /// Writes the product to `target`.
    pub(in super::super) fn multiply(self, loops: &Loops, target: Target<'_, f32>) {
        let (few, many) = lines(loops, self.left, self.integers);
        let (depth, to) = (loops.depth.length, (target, Write::Overwrite));
        if self.are_of_steps {
            multiply(Scaled::<true>(self.scales), few, many, depth, to);
        } else {
            multiply(Scaled::<false>(self.scales), few, many, depth, to);
        }
    }

    /// Divides the product as [`thin_parts`] does.
    pub(in super::super) fn parts(
        self,
        loops: &Loops,
        target: Target<'a, f32>,
        count: usize,
    ) -> Result<Vec<Part<'a>>, Target<'a, f32>> {
        let (few, many) = lines(loops, self.left, self.integers);
        if !lanes::are_divided(loops, few.count, &many) {
            return Err(target);
        }
        let depth = loops.depth.length;
        Ok(if self.are_of_steps {
            let scaled = Scaled::<true>(self.scales);
            lanes::parts(scaled, few, many, depth, target, count)
        } else {
            let scaled = Scaled::<false>(self.scales);
            lanes::parts(scaled, few, many, depth, target, count)
        })
    }
}

/// Returns the lines of both operands, those of the operand with fewer lines first.
fn few_and_many<'a, E>(
    loops: &Loops,
    left: &'a [E],
    right: &'a [E],
) -> (Lines<'a, E>, Lines<'a, E>) {
    let (left, right) = lines(loops, left, right);
    if left.count <= right.count {
        (left, right)
    } else {
        (right, left)
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
    with_neighbours(few, depth, |few| {
        let factors = Factors {
            few,
            many,
            numbers,
            depth,
        };
        arch().dispatch(Thin {
            factors,
            target,
            write,
        });
    });
}

/// Calls a function with lines whose elements are neighbours.
fn with_neighbours<E: ArrayElement>(
    few: Lines<'_, E>,
    depth: usize,
    call: impl FnOnce(Lines<'_, E>),
) {
    if few.depth == 1 {
        return call(few);
    }
    let mut gathered = reused(few.count * depth);
    for (at, line) in gathered.chunks_exact_mut(depth).enumerate() {
        few.gather(at, line);
    }
    call(Lines {
        elements: &gathered,
        stride: depth,
        depth: 1,
        ..few
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

    /// Returns whether the elements at a step of neighbouring lines are neighbours in memory.
    #[inline(always)]
    fn are_across(&self) -> bool {
        self.stride == 1 && self.count > 1
    }
}

struct Thin<'a, E: Stored, N: Numbers<E::Sum>> {
    /// The few lines, whose elements are neighbours, and the many lines.
    factors: Factors<'a, E, N>,
    target: Target<'a, E>,
    write: Write,
}

impl<E: Stored<Sum: Fused>, N: Numbers<E::Sum>> pulp::WithSimd for Thin<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        let Factors { many, depth, .. } = self.factors;
        if many.are_across() {
            self.by_steps();
        } else if many.depth == 1 {
            self.by_lines(S::REGISTER_COUNT >= MANY_REGISTERS);
        } else {
            let mut line = reused(depth);
            for at in 0..many.count {
                many.gather(at, &mut line);
                // All lines are this one.
                let many = Lines {
                    elements: &line,
                    stride: 0,
                    depth: 1,
                    ..many
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
        let Factors { few, many, .. } = self.factors;
        let whole = match few.count {
            ..=ONE_BY_ONE => 0,
            _ => many.count - many.count % LINES,
        };
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
        let (count, mut few) = (self.factors.few.count, 0);
        while few < count {
            few += if has_many_registers && few + 2 <= count {
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
        let factors = &self.factors;
        let lines = std::array::from_fn(|line| factors.few.line(few + line, factors.depth));
        // The first of the few lines request what is read next.
        let ahead = (few == 0).then_some(match L {
            1 => AHEAD / size_of::<N::Element>(),
            _ => L * many.stride,
        });
        let sums: [[_; L]; F] = sums(factors.numbers, lines, many, first, ahead);
        for (line, sums) in (few..).zip(&sums) {
            self.store(line, first, sums);
        }
        F
    }

    /// Reads many lines that are neighbours, one step of the depth after the other.
    #[inline(always)]
    fn by_steps(&mut self) {
        let factors = self.factors;
        let count = factors.few.count;
        let width = (lanes::RESULTS / count).min(factors.many.count);
        let mut partial = reused::<E::Sum>(LANES * count * width);
        for first in (0..factors.many.count).step_by(width) {
            let width = width.min(factors.many.count - first);
            let partial = &mut partial[..LANES * count * width];
            factors.add_lanes(0..LANES, first, width, partial);
            let mut lanes = partial.chunks_exact(count * width);
            let lanes = std::array::from_fn(|_| lanes.next().unwrap_or_default());
            self.join_lanes(lanes, first, width);
        }
        give_back(partial);
    }

    /// Writes the sums of partial sums of `width` results of each of the few lines.
    #[inline(always)]
    fn join_lanes(&mut self, lanes: [&[E::Sum]; LANES], first: usize, width: usize) {
        let mut sums = reused(width);
        for line in 0..self.factors.few.count {
            let lanes = lanes.map(|lane| &lane[line * width..][..width]);
            lanes::join(lanes, &mut sums);
            self.store(line, first, &sums);
        }
        give_back(sums);
    }

    /// Writes results of one of the few lines.
    #[inline(always)]
    fn store(&mut self, few: usize, first: usize, sums: &[E::Sum]) {
        let Factors {
            few: of_few, many, ..
        } = self.factors;
        for (at, &sum) in (first..).zip(sums) {
            let position = few * of_few.result + at * many.result;
            let element = &mut self.target.slice_mut(position, 1)[0];
            *element = match self.write {
                Write::Overwrite => E::rounded(sum),
                Write::Add => E::rounded(element.wide().plus(sum)),
            };
        }
    }
}
