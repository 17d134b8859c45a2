//! Partial sums of many neighbouring lines, which one thread or several threads compute.
//!
//! The elements at a step of the depth are neighbours in memory. If threads divided the lines, each would read short runs of it. So each
//! thread computes some of the partial sums of all results, and thereby reads neighbouring steps. The last thread that is done adds them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::factors::{Call, Factors, Lines, Results};
use super::fused::{Fused, LANES};
use super::leaves::{StepRows, add_rows, join_rows};
use super::numbers::{Numbers, Wide};
use crate::base::array::{give_back, reused};
use crate::base::target::Region;
use crate::loops::dot::matrix_product::loops::{Kernel, Loops};
use crate::loops::dot::matrix_product::stored::Part;

/// The number of terms that are added to a partial sum in a register, between a load and a store of this sum.
const TERMS: usize = 8;

/// The number of terms that are added so if fewer are left.
const FEWER_TERMS: usize = 4;

/// The number of results whose partial sums are in the caches. Long runs of neighbouring elements are read fastest.
const RESULTS: usize = 4096;

/// The most elements of a row that are widened at a time. Those of all terms stay in the first-level cache.
const COPIED: usize = 512;

/// The greatest number of results whose partial sums several threads compute.
const DIVIDED_RESULTS: usize = 2 * RESULTS;

/// Writes a product, one step of the depth after the other.
pub(super) fn by_steps<S: Fused, N: Numbers<S>>(
    factors: Factors<'_, S, N>,
    results: &mut dyn Results<S>,
) {
    let (count, lines) = (factors.few.lines.count, factors.many.lines.count);
    let width = (RESULTS / count).min(lines);
    let mut partial = reused::<S>(LANES * count * width);
    for first in (0..lines).step_by(width) {
        let width = width.min(lines - first);
        let partial = &mut partial[..LANES * count * width];
        factors.add_lanes(0..LANES, first, width, partial);
        factors.join(partial.chunks_exact(count * width), first, width, results);
    }
    give_back(partial);
}

impl<S: Fused, N: Numbers<S>> Factors<'_, S, N> {
    /// Writes some partial sums of `width` results of each of the few lines, of which `first` is the first one.
    fn add_lanes(&self, lanes: Range<usize>, first: usize, width: usize, partial: &mut [S]) {
        let mut copied = if N::ARE_READ {
            Vec::new()
        } else {
            reused(TERMS * width.min(COPIED))
        };
        partial.fill(S::default());
        for start in (0..self.depth).step_by(LANES * TERMS) {
            let end = self.depth.min(start + LANES * TERMS);
            let of_lanes = partial.chunks_exact_mut(self.few.lines.count * width);
            for (lane, sums) in lanes.clone().zip(of_lanes) {
                let (mut step, copied) = (start + lane, &mut copied[..]);
                while step < end {
                    let terms = match (end - step).div_ceil(LANES) {
                        TERMS.. => self.add_terms::<TERMS>(step, first, sums, copied),
                        FEWER_TERMS.. => self.add_terms::<FEWER_TERMS>(step, first, sums, copied),
                        _ => self.add_terms::<1>(step, first, sums, copied),
                    };
                    step += LANES * terms;
                }
            }
        }
        give_back(copied);
    }

    /// Adds `T` terms, of which the first is at `step`, to a partial sum of results of each of the few lines. Returns `T`.
    fn add_terms<const T: usize>(
        &self,
        step: usize,
        first: usize,
        sums: &mut [S],
        copied: &mut [S],
    ) -> usize {
        let width = sums.len() / self.few.lines.count;
        let (elements, depth) = (self.many.elements, self.many.lines.depth);
        if N::ARE_READ {
            let steps = StepRows {
                elements: &elements[step * depth + first..],
                distance: LANES * depth,
                count: width,
                first,
                step,
                // The rows of the next partial sum.
                next: elements
                    .get((step + 1) * depth + first..)
                    .unwrap_or_default(),
            };
            self.add_steps::<N, T>(self.numbers, steps, (sums, 0));
            return T;
        }
        let columns = copied.len() / TERMS;
        for start in (0..width).step_by(columns) {
            let count = columns.min(width - start);
            let mut step_of_row = step;
            for to in copied.chunks_exact_mut(columns).take(T) {
                let lines = first + start..first + start + count;
                let row = &elements[step_of_row * depth + lines.start..][..count];
                let steps = step_of_row..step_of_row + 1;
                self.numbers.copy(row, lines, steps, &mut to[..count]);
                step_of_row += LANES;
            }
            let steps = StepRows {
                elements: copied,
                distance: columns,
                count,
                first: 0,
                step,
                next: &[],
            };
            self.add_steps::<Wide<S>, T>(Wide::NEW, steps, (sums, start));
        }
        T
    }

    /// Adds `T` rows to the sums of each of the few lines, from the column `start` on.
    fn add_steps<M: Numbers<S>, const T: usize>(
        &self,
        numbers: M,
        mut steps: StepRows<'_, M::Element>,
        (sums, start): (&mut [S], usize),
    ) {
        let mut few = self.few.lines;
        let width = sums.len() / few.count;
        let mut sums = &mut sums[start..];
        while few.count > 0 {
            let count = match few.count {
                4.. => add_rows::<S, M, 4, T>(numbers, steps, few, sums, width),
                2.. => add_rows::<S, M, 2, T>(numbers, steps, few, sums, width),
                _ => add_rows::<S, M, 1, T>(numbers, steps, few, sums, width),
            };
            few = few.without(count);
            let done = (count * width).min(sums.len());
            sums = &mut sums[done..];
            // The first lines request what is read next.
            steps.next = &[];
        }
    }

    /// Writes the sums of partial sums of `width` results of each of the few lines. `lanes` are the partial sums.
    fn join<'s>(
        &self,
        mut lanes: impl Iterator<Item = &'s [S]>,
        first: usize,
        width: usize,
        results: &mut dyn Results<S>,
    ) {
        let lanes: [&[S]; LANES] = std::array::from_fn(|_| lanes.next().unwrap_or_default());
        let mut sums = reused(width);
        for line in 0..self.few.lines.count {
            join_rows(lanes.map(|lane| &lane[line * width..][..width]), &mut sums);
            let position = line * self.few.result + first * self.many.lines.result;
            results.store(position, self.many.lines.result, &sums);
        }
        give_back(sums);
    }
}

/// Returns whether threads should divide the partial sums of a product.
pub(super) fn are_divided(loops: &Loops, few: usize, many: Lines) -> bool {
    let is_single = loops.extents().1 == 1;
    is_single
        && loops.kernel() == Kernel::Thin
        && many.are_across()
        && few * many.count <= DIVIDED_RESULTS
}

/// Divides a product into at most `count` parts. The part that is done last continues with the whole result.
///
/// `with_factors` calls a function with the factors.
pub(super) fn parts<'a, S: Fused, N: Numbers<S> + 'a>(
    with_factors: impl Fn(Call<'_, S, N>) + Send + Sync + 'a,
    results: Box<dyn Results<S> + Send + 'a>,
    count: usize,
) -> Vec<Part<'a>> {
    let size = LANES.div_ceil(count);
    let count = LANES.div_ceil(size);
    let state = Arc::new((
        with_factors,
        Mutex::new(State {
            results: Some(results),
            done: Vec::new(),
        }),
    ));
    let part = |part: usize| -> Part<'a> {
        let state = Arc::clone(&state);
        let lanes = part * size..LANES.min((part + 1) * size);
        Box::new(move |then| {
            let (with_factors, state) = &*state;
            with_factors(&|factors| {
                let width = factors.many.lines.count;
                let length = factors.few.lines.count * width;
                let mut partial = reused(lanes.len() * length);
                factors.add_lanes(lanes.clone(), 0, width, &mut partial);
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.done.push((lanes.start, partial));
                if state.done.len() < count {
                    return;
                }
                let mut done = std::mem::take(&mut state.done);
                if let Some(mut results) = state.results.take() {
                    done.sort_unstable_by_key(|(first, _)| *first);
                    let lanes = done.iter();
                    let lanes = lanes.flat_map(|(_, partial)| partial.chunks_exact(length));
                    factors.join(lanes, 0, width, &mut *results);
                    if let Some(then) = then {
                        then(Region::between(0, length));
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

struct State<'a, S> {
    /// `None` after the results are written.
    results: Option<Box<dyn Results<S> + Send + 'a>>,
    done: Done<S>,
}
