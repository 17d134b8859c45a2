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

use std::ops::Range;

use super::loops::Loops;
use super::{Factor, Stored, Write};
use crate::base::array::{give_back, reused};
use crate::base::instructions::arch;
use crate::base::prefetch::prefetch;
use crate::base::target::Target;

/// The number of partial sums of an element.
const LANES: usize = 16;

/// The number of lines that are read side by side. The hardware follows this number of streams, and the registers hold their sums.
const LINES: usize = 4;

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
    let (mut few, many) = if rows.length <= columns.length {
        (left, right)
    } else {
        (right, left)
    };
    let mut gathered = Vec::new();
    if few.depth != 1 {
        gathered = reused(few.count * depth.length);
        for (at, line) in gathered.chunks_exact_mut(depth.length).enumerate() {
            few.gather(at, line);
        }
        few = Lines {
            elements: &gathered,
            stride: depth.length,
            depth: 1,
            ..few
        };
    }
    arch().dispatch(Thin {
        few,
        many,
        depth: depth.length,
        target,
        write,
    });
    give_back(gathered);
}

impl<'a, E: Stored> Lines<'a, E> {
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

struct Thin<'a, E: Stored> {
    /// A few lines, whose elements are neighbours.
    few: Lines<'a, E>,
    many: Lines<'a, E>,
    depth: usize,
    target: Target<'a, E>,
    write: Write,
}

impl<E: Stored<Sum: Fused>> pulp::WithSimd for Thin<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        if self.many.stride == 1 && self.many.count > 1 {
            self.by_steps();
        } else if self.many.depth == 1 {
            self.by_lines();
        } else {
            let mut line = reused(self.depth);
            for at in 0..self.many.count {
                self.many.gather(at, &mut line);
                for few in 0..self.few.count {
                    let [sum] = sums([&line], self.few.line(few, self.depth), self.many, &[]);
                    self.store(few, at, &[sum]);
                }
            }
            give_back(line);
        }
    }
}

impl<E: Stored<Sum: Fused>> Thin<'_, E> {
    /// Reads many lines whose elements are neighbours.
    #[inline(always)]
    fn by_lines(&mut self) {
        let (many, depth) = (self.many, self.depth);
        let mut at = 0;
        while at + LINES <= many.count {
            let lines = std::array::from_fn(|line| many.line(at + line, depth));
            let mut ahead = many.elements.get((at + LINES) * many.stride..);
            for few in 0..self.few.count {
                let ahead = ahead.take().unwrap_or_default();
                let sums: [E::Sum; LINES] = sums(lines, self.few.line(few, depth), many, ahead);
                self.store(few, at, &sums);
            }
            at += LINES;
        }
        for at in at..many.count {
            for few in 0..self.few.count {
                let sums = sums([many.line(at, depth)], self.few.line(few, depth), many, &[]);
                self.store(few, at, &sums);
            }
        }
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
            let rows = std::array::from_fn(|term| row(step(term)));
            // The rows of the next partial sum, which the first lines request.
            let next = (steps.start + 1) * self.many.depth + first;
            let ahead = self.many.elements.get(next..).filter(|_| line == 0);
            let ahead = (ahead.unwrap_or_default(), LANES * self.many.depth);
            add(rows, factors, &mut sums, ahead);
        } else {
            for step in steps.step_by(LANES) {
                let factors: [_; F] = std::array::from_fn(|few| [factor(few, step)]);
                add([row(step)], factors, &mut sums, (&[], 0));
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

/// Returns the sums of the products of `lines` with the line `few`. Requests the elements at the same places of the lines `ahead`,
/// which are as far apart as those of `many`.
#[inline(always)]
fn sums<E: Stored<Sum: Fused>, const N: usize>(
    lines: [&[E]; N],
    few: &[E],
    many: Lines<'_, E>,
    ahead: &[E],
) -> [E::Sum; N] {
    let mut sums = [[E::Sum::default(); LANES]; N];
    let (whole, rest) = few.as_chunks::<LANES>();
    let chunks = lines.map(|line| &line.as_chunks::<LANES>().0[..whole.len()]);
    for (place, few) in whole.iter().enumerate() {
        for line in 0..N {
            add_chunk(&mut sums[line], &chunks[line][place], few);
        }
        for line in 0..N {
            let at = line * many.stride + place * LANES;
            if at < ahead.len() {
                prefetch(&ahead[at..=at]);
            }
        }
    }
    if !rest.is_empty() {
        let start = whole.len() * LANES;
        let padded = |line: &[E]| {
            let mut padded = [E::default(); LANES];
            padded[..rest.len()].copy_from_slice(&line[start..start + rest.len()]);
            padded
        };
        for line in 0..N {
            add_chunk(&mut sums[line], &padded(lines[line]), &padded(few));
        }
    }
    sums.map(|mut sums| {
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                sums[lane] = sums[lane].plus(sums[lane + half]);
            }
            half /= 2;
        }
        sums[0]
    })
}

/// Adds the products of neighbouring elements to partial sums.
#[inline(always)]
fn add_chunk<E: Stored<Sum: Fused>>(
    sums: &mut [E::Sum; LANES],
    line: &[E; LANES],
    few: &[E; LANES],
) {
    for lane in 0..LANES {
        sums[lane] = sums[lane].plus_fused(few[lane].wide(), line[lane].wide());
    }
}

/// Adds multiples of rows to the sums of each of `F` lines, one row after the other. Requests the elements at the same places of the
/// rows `ahead`, which are `distance` apart.
#[inline(always)]
fn add<E: Stored<Sum: Fused>, const F: usize, const N: usize>(
    rows: [&[E]; N],
    factors: [[E::Sum; N]; F],
    sums: &mut [&mut [E::Sum]; F],
    (ahead, distance): (&[E], usize),
) {
    let whole = sums[0].len() / LANES;
    let chunks = rows.map(|row| &row.as_chunks::<LANES>().0[..whole]);
    for place in 0..whole {
        for row in 0..N {
            let at = row * distance + place * LANES;
            if at < ahead.len() {
                prefetch(&ahead[at..=at]);
            }
        }
        let mut totals = [[E::Sum::default(); LANES]; F];
        for line in 0..F {
            totals[line] = sums[line].as_chunks::<LANES>().0[place];
        }
        for row in 0..N {
            let chunk = &chunks[row][place];
            for line in 0..F {
                for lane in 0..LANES {
                    let total = totals[line][lane];
                    totals[line][lane] = total.plus_fused(factors[line][row], chunk[lane].wide());
                }
            }
        }
        for line in 0..F {
            sums[line].as_chunks_mut::<LANES>().0[place] = totals[line];
        }
    }
    for line in 0..F {
        for at in whole * LANES..sums[line].len() {
            for row in 0..N {
                let sum = sums[line][at];
                sums[line][at] = sum.plus_fused(factors[line][row], rows[row][at].wide());
            }
        }
    }
}
