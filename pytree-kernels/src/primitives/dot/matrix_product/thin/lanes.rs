//! Partial sums of many neighbouring lines, which one thread or several threads compute.
//!
//! The elements at a step of the depth are neighbours in memory. If threads divided the lines, each would read short runs of it. So each
//! thread computes some of the partial sums of all results, and thereby reads neighbouring steps. The last thread that is done adds them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::numbers::Numbers;
use super::sums::{add, joined};
use super::{Fused, LANES, Lines, Thin, Write, with_neighbours};
use crate::base::array::{give_back, reused};
use crate::base::dtype::ArrayElement;
use crate::base::instructions::arch;
use crate::base::target::{Region, Target};
use crate::primitives::dot::matrix_product::{Kernel, Loops, Part, Stored};

/// The number of terms that are added to a partial sum in a register, between a load and a store of this sum.
const TERMS: usize = 8;

/// The number of terms that are added so if fewer are left.
const FEWER_TERMS: usize = 4;

/// The number of results whose partial sums are in the caches. Long runs of neighbouring elements are read fastest.
pub(super) const RESULTS: usize = 4096;

/// The greatest number of results whose partial sums several threads compute.
const DIVIDED_RESULTS: usize = 2 * RESULTS;

/// The factors of a product: a few lines, whose elements are neighbours, and many lines with the numbers that they represent.
#[derive(Clone, Copy)]
pub(super) struct Factors<'a, E: Stored, N: Numbers<E::Sum>> {
    pub(super) few: Lines<'a, E>,
    pub(super) many: Lines<'a, N::Element>,
    pub(super) numbers: N,
    pub(super) depth: usize,
}

impl<E: Stored<Sum: Fused>, N: Numbers<E::Sum>> Factors<'_, E, N> {
    /// Writes some partial sums of `width` results of each of the few lines, of which `first` is the first one.
    #[inline(always)]
    pub(super) fn add_lanes(
        &self,
        lanes: Range<usize>,
        first: usize,
        width: usize,
        partial: &mut [E::Sum],
    ) {
        let count = self.few.count;
        partial.fill(E::Sum::default());
        for start in (0..self.depth).step_by(LANES * TERMS) {
            let end = self.depth.min(start + LANES * TERMS);
            for (lane, sums) in lanes.clone().zip(partial.chunks_exact_mut(count * width)) {
                let mut line = 0;
                while line < count {
                    let (sums, steps) = (&mut sums[line * width..], start + lane..end);
                    line += match count - line {
                        4.. => self.add_steps::<4>(line, steps, first, width, sums),
                        2.. => self.add_steps::<2>(line, steps, first, width, sums),
                        _ => self.add_steps::<1>(line, steps, first, width, sums),
                    };
                }
            }
        }
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
        let mut of_lines = sums.chunks_exact_mut(width);
        let mut sums = std::array::from_fn(|_| of_lines.next().unwrap_or_default());
        let mut step = steps.start;
        while step < steps.end {
            let terms = match (steps.end - step).div_ceil(LANES) {
                TERMS.. => self.add_terms::<F, TERMS>(line, step, first, &mut sums),
                FEWER_TERMS.. => self.add_terms::<F, FEWER_TERMS>(line, step, first, &mut sums),
                _ => self.add_terms::<F, 1>(line, step, first, &mut sums),
            };
            step += LANES * terms;
        }
        F
    }

    /// Adds `T` terms, of which the first is at `step`, to a partial sum of results of `F` of the few lines. Returns `T`.
    #[inline(always)]
    fn add_terms<const F: usize, const T: usize>(
        &self,
        line: usize,
        step: usize,
        first: usize,
        sums: &mut [&mut [E::Sum]; F],
    ) -> usize {
        let steps: [usize; T] = std::array::from_fn(|term| step + LANES * term);
        let factors = std::array::from_fn(|few| {
            let line = self.few.line(line + few, self.depth);
            steps.map(|step| line[step].wide())
        });
        let rows = steps.map(|step| self.many.across(step, first, sums[0].len()));
        // The rows of the next partial sum, which the first lines request.
        let next = (step + 1) * self.many.depth + first;
        let ahead = self.many.elements.get(next..).filter(|_| line == 0);
        let ahead = (ahead.unwrap_or_default(), LANES * self.many.depth);
        add(self.numbers, rows, (first, steps), factors, sums, ahead);
        T
    }
}

/// Writes the sums of partial sums.
#[inline(always)]
pub(super) fn join<S: Fused>(lanes: [&[S]; LANES], sums: &mut [S]) {
    let (chunks, rest) = sums.as_chunks_mut::<LANES>();
    let whole = chunks.len();
    let of_lanes = lanes.map(|lane| &lane.as_chunks::<LANES>().0[..whole]);
    for (place, chunk) in chunks.iter_mut().enumerate() {
        let mut numbers = of_lanes.map(|lane| lane[place]);
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                for at in 0..LANES {
                    numbers[lane][at] = numbers[lane][at].plus(numbers[lane + half][at]);
                }
            }
            half /= 2;
        }
        *chunk = numbers[0];
    }
    for (at, sum) in (whole * LANES..).zip(rest) {
        *sum = joined(lanes.map(|lane| lane[at]));
    }
}

/// Returns whether threads should divide the partial sums of a product.
pub(super) fn are_divided<E: ArrayElement>(loops: &Loops, few: usize, many: &Lines<'_, E>) -> bool {
    let is_single = loops.extents().1 == 1;
    is_single
        && loops.kernel() == Kernel::Thin
        && many.are_across()
        && few * many.count <= DIVIDED_RESULTS
}

/// Divides a product into at most `count` parts. The part that is done last continues with the whole result.
pub(super) fn parts<'a, E: Stored<Sum: Fused>, N: Numbers<E::Sum> + Send + Sync + 'a>(
    numbers: N,
    few: Lines<'a, E>,
    many: Lines<'a, N::Element>,
    depth: usize,
    target: Target<'a, E>,
    count: usize,
) -> Vec<Part<'a>>
where
    N::Element: Sync,
{
    let size = LANES.div_ceil(count);
    let count = LANES.div_ceil(size);
    let state = Arc::new(Mutex::new(State {
        target: Some(target),
        done: Vec::new(),
    }));
    let part = |part: usize| -> Part<'a> {
        let state = Arc::clone(&state);
        let lanes = part * size..LANES.min((part + 1) * size);
        Box::new(move |then| {
            with_neighbours(few, depth, |few| {
                let factors = Factors {
                    few,
                    many,
                    numbers,
                    depth,
                };
                let results = few.count * many.count;
                let mut partial = reused(lanes.len() * results);
                arch().dispatch(Adding {
                    factors,
                    lanes: lanes.clone(),
                    partial: &mut partial,
                });
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.done.push((lanes.start, partial));
                if state.done.len() < count {
                    return;
                }
                let mut done = std::mem::take(&mut state.done);
                if let Some(target) = state.target.take() {
                    done.sort_unstable_by_key(|(first, _)| *first);
                    arch().dispatch(Joining {
                        thin: Thin {
                            factors,
                            target,
                            write: Write::Overwrite,
                        },
                        done: &done,
                    });
                    if let Some(then) = then {
                        then(Region::between(0, results));
                    }
                }
                done.into_iter().for_each(|(_, partial)| give_back(partial));
            });
        })
    };
    (0..count).map(part).collect()
}

/// The parts that are done: their first partial sum, and their partial sums.
type Done<S> = Vec<(usize, Vec<S>)>;

struct State<'a, E: Stored> {
    /// `None` after the results are written.
    target: Option<Target<'a, E>>,
    done: Done<E::Sum>,
}

/// Computes some partial sums of all results.
struct Adding<'a, E: Stored, N: Numbers<E::Sum>> {
    factors: Factors<'a, E, N>,
    lanes: Range<usize>,
    partial: &'a mut [E::Sum],
}

impl<E: Stored<Sum: Fused>, N: Numbers<E::Sum>> pulp::WithSimd for Adding<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let width = self.factors.many.count;
        self.factors.add_lanes(self.lanes, 0, width, self.partial);
    }
}

/// Writes the sums of the partial sums of all parts.
struct Joining<'a, E: Stored, N: Numbers<E::Sum>> {
    thin: Thin<'a, E, N>,
    done: &'a Done<E::Sum>,
}

impl<E: Stored<Sum: Fused>, N: Numbers<E::Sum>> pulp::WithSimd for Joining<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        let Factors { few, many, .. } = self.thin.factors;
        let results = few.count * many.count;
        let mut lanes = self
            .done
            .iter()
            .flat_map(|(_, partial)| partial.chunks_exact(results));
        let lanes = std::array::from_fn(|_| lanes.next().unwrap_or_default());
        self.thin.join_lanes(lanes, 0, many.count);
    }
}
