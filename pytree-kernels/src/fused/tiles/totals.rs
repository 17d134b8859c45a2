//! Totals: reductions of all rows to one row, or of all elements to one number, that a kernel accumulates tile by tile.
//!
//! The elements are divided into the blocks of [`crate::base::fold`], and each block has its own result. A chunk of a
//! kernel holds whole blocks, so different threads write different results. So the number of threads does not change
//! the bits of the total.

use pytree_base::bug::expect_some;
use smallvec::SmallVec;

use super::registers::{Float, OWN};
use crate::base::array::{Array, give_back, reused};
use crate::base::combine::{Combine, with_fold};
use crate::base::dtype::AbstractArray;
use crate::base::fold::{self, Fold, LANES, Lanes, PART};
use crate::base::narrow::narrowed;
use crate::base::target::Target;

/// A reduction of all rows of a kernel to one row, or of all elements to one number.
#[derive(Debug)]
pub(crate) struct Total {
    pub(crate) fold: Fold,
    /// The length of a row, or 1 if all elements are reduced to one number.
    pub(crate) period: usize,
    pub(crate) info: AbstractArray,
    /// The number of elements that form one block.
    block: usize,
}

impl Total {
    /// Describes a reduction of a kernel that has `length` elements in rows of `period` elements.
    pub(crate) fn new(fold: Fold, period: usize, length: usize, info: AbstractArray) -> Self {
        let block = if period == 1 {
            PART
        } else {
            fold::block_rows(length / period) * period
        };
        Self {
            fold,
            period,
            info,
            block,
        }
    }

    pub(crate) fn block(&self) -> usize {
        self.block
    }

    /// Reduces the results of all blocks to the final array.
    fn finish<F: Float>(&self, results: Vec<F>) -> Array {
        let array = self.combined(results);
        if self.info.dtype == F::dtype() {
            array
        } else {
            narrowed(&array, self.info.dtype)
        }
    }

    /// Reduces the results of all blocks, in the dtype of the kernel.
    fn combined<F: Float>(&self, results: Vec<F>) -> Array {
        if results.len() == self.period {
            return Array::new(&self.info.shape, results);
        }
        let mut array = Array::reused(&AbstractArray::new(F::dtype(), &self.info.shape));
        let target = expect_some(F::slice_mut(array.data_mut()), OWN);
        with_fold!(self.fold, C => if self.period == 1 {
            target.fill(fold::row::<F, C>(&results));
        } else {
            let rows = results.len() / self.period;
            fold::columns::<F, C>(target, &results, (rows, self.period), false);
        });
        give_back(results);
        array
    }
}

/// The totals of a kernel, each with one result for each of its blocks.
pub(crate) struct Totals<'p, F>(SmallVec<[(&'p Total, Vec<F>); 2]>);

impl<'p, F: Float> Totals<'p, F> {
    pub(crate) fn new(totals: &'p [Total], length: usize) -> Self {
        let results = |total: &'p Total| {
            let mut results = reused(length.div_ceil(total.block) * total.period);
            results.fill(start(total.fold));
            (total, results)
        };
        Self(totals.iter().map(results).collect())
    }

    /// Returns the accumulators of all totals, for all elements of the kernel.
    pub(crate) fn accumulators(&mut self) -> Accumulators<'_, F> {
        let accumulators = self.0.iter_mut().map(|(total, results)| Accumulator {
            total,
            results: Target::new(results),
            lanes: [start(total.fold); LANES],
        });
        Accumulators(accumulators.collect())
    }

    pub(crate) fn into_arrays(self) -> impl Iterator<Item = Array> {
        self.0
            .into_iter()
            .map(|(total, results)| total.finish(results))
    }
}

/// The accumulators of all totals, for one part of a kernel.
pub(crate) struct Accumulators<'a, F>(SmallVec<[Accumulator<'a, F>; 2]>);

struct Accumulator<'a, F> {
    total: &'a Total,
    /// The results of all blocks. The parts of a kernel write different ones.
    results: Target<'a, F>,
    /// The accumulated lanes of the current block. Used only if all elements are reduced to one number.
    lanes: Lanes<F>,
}

impl<'a, F: Float> Accumulators<'a, F> {
    /// Returns the accumulators for another part of the kernel.
    ///
    /// # Safety
    /// The parts have no common blocks, or no common columns of totals that are rows.
    #[allow(unsafe_code, reason = "the caller promises that the results differ")]
    pub(crate) unsafe fn shared(&self) -> Self {
        let shared = |accumulator: &Accumulator<'a, F>| Accumulator {
            total: accumulator.total,
            // SAFETY: the caller promises it.
            results: unsafe { accumulator.results.shared() },
            lanes: accumulator.lanes,
        };
        Self(self.0.iter().map(shared).collect())
    }

    /// Adds a tile to a total. The tile begins at the element `at`.
    pub(crate) fn add(&mut self, total: usize, tile: &[F], at: usize) {
        let accumulator = &mut self.0[total];
        with_fold!(accumulator.total.fold, C => accumulator.add::<C>(tile, at));
    }

    /// Completes the last part of each total after the last tile, which ends before the element `at`. The last part may
    /// be shorter than the other parts.
    pub(crate) fn end(&mut self, at: usize) {
        for accumulator in &mut self.0 {
            if accumulator.total.period == 1 && !at.is_multiple_of(PART) {
                with_fold!(accumulator.total.fold, C => accumulator.end_part::<C>(at));
            }
        }
    }
}

impl<F: Float> Accumulator<'_, F> {
    fn add<C: Combine<F>>(&mut self, tile: &[F], at: usize) {
        if self.total.period == 1 {
            self.add_to_lanes::<C>(tile, at);
        } else {
            self.add_to_rows::<C>(tile, at);
        }
    }

    fn add_to_lanes<C: Combine<F>>(&mut self, mut tile: &[F], mut at: usize) {
        while !tile.is_empty() {
            let position = at % PART;
            let (now, later) = tile.split_at((PART - position).min(tile.len()));
            fold::into_lanes::<F, C>(&mut self.lanes, position, now);
            at += now.len();
            tile = later;
            if at.is_multiple_of(PART) {
                self.end_part::<C>(at);
            }
        }
    }

    /// Writes the result of the part ([`PART`]) that ends before the element `at`, and clears the lanes.
    fn end_part<C: Combine<F>>(&mut self, at: usize) {
        let lanes = std::mem::replace(&mut self.lanes, [C::START; LANES]);
        self.results.slice_mut((at - 1) / PART, 1)[0] = fold::join_lanes::<F, C>(lanes);
    }

    fn add_to_rows<C: Combine<F>>(&mut self, mut tile: &[F], at: usize) {
        let Total { period, block, .. } = *self.total;
        let (mut target, mut column) = (at / block * period, at % period);
        let mut left_in_block = block - at % block;
        while !tile.is_empty() {
            let (now, later) = tile.split_at((period - column).min(tile.len()));
            let results = self.results.slice_mut(target + column, now.len());
            fold::into_row::<F, C>(results, now);
            left_in_block -= now.len();
            if left_in_block == 0 {
                (target, left_in_block) = (target + period, block);
            }
            column = 0;
            tile = later;
        }
    }
}

/// Returns the initial accumulator of a reduction.
fn start<F: Float>(fold: Fold) -> F {
    with_fold!(fold, C => <C as Combine<F>>::START)
}
