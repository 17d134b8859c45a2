//! Totals: reductions of all rows to one row, or of all elements to one number, that a kernel accumulates tile by tile.
//!
//! The elements are divided into the blocks of [`crate::base::fold`], and each block has its own result. A chunk of a
//! kernel holds whole blocks, so different threads write different results. So the number of threads does not change
//! the bits of the total.

use pytree_base::bug::expect_some;
use smallvec::SmallVec;

use super::{Float, OWN};
use crate::base::array::{Array, give_back, reused};
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
        let start = F::start(self.fold);
        let combine = |left, right| F::combine(self.fold, left, right);
        if results.len() == self.period {
            return Array::new(&self.info.shape, results);
        }
        let mut array = Array::reused(&AbstractArray::new(F::dtype(), &self.info.shape));
        let target = expect_some(F::slice_mut(array.data_mut()), OWN);
        if self.period == 1 {
            target.fill(fold::row(&results, start, combine));
        } else {
            fold::columns(target, &results, false, start, combine);
        }
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
            results.fill(F::start(total.fold));
            (total, results)
        };
        Self(totals.iter().map(results).collect())
    }

    /// Returns the accumulators of all totals, for all elements of the kernel.
    pub(crate) fn accumulators(&mut self) -> Accumulators<'_, F> {
        let accumulators = self.0.iter_mut().map(|(total, results)| Accumulator {
            total,
            results: Target::new(results),
            lanes: [F::start(total.fold); LANES],
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
    #[inline(always)]
    pub(crate) fn add(&mut self, total: usize, tile: &[F], at: usize) {
        let accumulator = &mut self.0[total];
        match accumulator.total.fold {
            Fold::Sum => accumulator.add(tile, at, Fold::Sum),
            Fold::Max => accumulator.add(tile, at, Fold::Max),
            Fold::Min => accumulator.add(tile, at, Fold::Min),
        }
    }

    /// Completes the last part of each total after the last tile, which ends before the element `at`. The last part may
    /// be shorter than the other parts.
    #[inline(always)]
    pub(crate) fn end(&mut self, at: usize) {
        for accumulator in &mut self.0 {
            if accumulator.total.period == 1 && !at.is_multiple_of(PART) {
                accumulator.end_part(at, accumulator.total.fold);
            }
        }
    }
}

impl<F: Float> Accumulator<'_, F> {
    #[inline(always)]
    fn add(&mut self, tile: &[F], at: usize, fold: Fold) {
        if self.total.period == 1 {
            self.add_to_lanes(tile, at, fold);
        } else {
            self.add_to_rows(tile, at, fold);
        }
    }

    #[inline(always)]
    fn add_to_lanes(&mut self, mut tile: &[F], mut at: usize, fold: Fold) {
        while !tile.is_empty() {
            let position = at % PART;
            let (now, later) = tile.split_at((PART - position).min(tile.len()));
            fold::into_lanes(&mut self.lanes, position, now, |left, right| {
                F::combine(fold, left, right)
            });
            at += now.len();
            tile = later;
            if at.is_multiple_of(PART) {
                self.end_part(at, fold);
            }
        }
    }

    /// Writes the result of the part ([`PART`]) that ends before the element `at`, and clears the lanes.
    #[inline(always)]
    fn end_part(&mut self, at: usize, fold: Fold) {
        let lanes = std::mem::replace(&mut self.lanes, [F::start(fold); LANES]);
        let combine = |left, right| F::combine(fold, left, right);
        let result = fold::join_lanes(lanes, combine);
        self.results.slice_mut((at - 1) / PART, 1)[0] = result;
    }

    #[inline(always)]
    fn add_to_rows(&mut self, mut tile: &[F], at: usize, fold: Fold) {
        let Total { period, block, .. } = *self.total;
        let (mut target, mut column) = (at / block * period, at % period);
        let mut left_in_block = block - at % block;
        while !tile.is_empty() {
            let (now, later) = tile.split_at((period - column).min(tile.len()));
            let results = self.results.slice_mut(target + column, now.len());
            fold::into_row(results, now, |left, right| F::combine(fold, left, right));
            left_in_block -= now.len();
            if left_in_block == 0 {
                (target, left_in_block) = (target + period, block);
            }
            column = 0;
            tile = later;
        }
    }
}
