//! Runs a part of a kernel tile by tile.

use smallvec::SmallVec;

use super::direct::Destinations;
use super::program::Kernel;
use crate::base::narrow::Half;
use crate::base::pattern::Pattern;
use crate::base::prefetch::prefetch;
use crate::base::target::Region;
use crate::fused::places::{Here, KernelInput};
use crate::fused::steps::{Fill, Level, Types, Work};
use crate::fused::tiles::registers::{Float, Tiles};
use crate::fused::tiles::totals::Accumulators;
use crate::loops::elementwise::Elementwise;
use crate::loops::elementwise::classes::Memory;

impl Kernel {
    /// Computes the results of a part.
    pub(super) fn run_part<F: Float>(&self, sources: &[KernelInput<'_>], part: ThreadPart<'_, F>) {
        let mut tiles = Tiles::borrow(&self.held, self.tile);
        for filled in &self.fills {
            if let Fill::Number(number) = filled.fill {
                tiles.fill(filled.register, filled.dtype, number, sources);
            }
        }
        let mut run = Run {
            kernel: self,
            sources,
            factors: self
                .factors
                .iter()
                .map(|factor| factor.value(sources))
                .collect(),
            part,
            tiles,
            destinations: self.destinations(sources),
        };
        run.run();
    }

    /// Converts a number of elements to a number of values of the given level (elements or rows).
    fn at_level(&self, elements: usize, level: Level) -> usize {
        match level {
            Level::Element => elements,
            Level::Row => elements / self.row,
        }
    }
}

/// Elements of a kernel that one thread computes, and the memory for its results.
pub(super) struct ThreadPart<'s, F: Float> {
    pub(super) region: Region,
    pub(super) slots: SmallVec<[Memory<'s>; 2]>,
    pub(super) accumulators: Accumulators<'s, F>,
}

impl<F: Float> ThreadPart<'_, F> {
    /// Returns a part of the same kernel with other elements.
    ///
    /// # Safety
    /// The regions of the parts that run at the same time have no common rows of a kernel with rows, no common blocks of totals, and
    /// otherwise no common elements.
    #[allow(unsafe_code, reason = "the caller promises that the elements differ")]
    pub(super) unsafe fn shared(&self, region: Region) -> Self {
        // SAFETY: the caller promises it.
        unsafe {
            Self {
                region,
                slots: self.slots.iter().map(|slot| slot.shared()).collect(),
                accumulators: self.accumulators.shared(),
            }
        }
    }
}

/// A kernel that runs on a part of its elements. Each step of a tile is a leaf loop.
struct Run<'a, 's, F: Float> {
    kernel: &'a Kernel,
    sources: &'a [KernelInput<'a>],
    factors: SmallVec<[F; 8]>,
    part: ThreadPart<'s, F>,
    tiles: Tiles,
    destinations: Destinations,
}

impl<F: Float> Run<'_, '_, F> {
    fn run(&mut self) {
        let Region {
            first,
            rows,
            columns,
            stride,
        } = self.part.region;
        let tile = self.kernel.tile;
        let step = if rows > 1 { stride } else { tile };
        let mut column = 0;
        while column < columns {
            let count = tile.min(columns - column);
            // In a single row, all tiles hold whole repetitions.
            if rows > 1 || column == 0 {
                self.fill_rows(first + column);
            }
            for row in 0..rows {
                self.run_tile(first + row * stride + column, count, step);
            }
            column += count;
        }
        self.part.accumulators.end(first + columns);
    }

    /// Fills the registers of repeated rows for tiles that begin at the element `start`.
    fn fill_rows(&mut self, start: usize) {
        for filled in &self.kernel.fills {
            if let Fill::Row { input, period } = filled.fill {
                let (source, pattern) = (self.sources[input].array(), Pattern::Cycle { period });
                let count = self.kernel.tile;
                self.tiles
                    .load_array::<F>(filled.register, pattern, source, start, count);
            }
        }
    }

    /// Requests elements of an input that the next tile reads.
    fn request(&self, input: usize, start: usize, end: usize) {
        match self.sources[input] {
            KernelInput::Array(array) => {
                if let Some(elements) = F::slice(array.data()) {
                    prefetch(&elements[start..end]);
                } else if Half::of(array.dtype()).is_some() {
                    prefetch(&array.bits::<u16>()[start..end]);
                }
            }
            KernelInput::Result(result) => {
                if let Some(elements) = F::own(&self.part.slots[result]) {
                    prefetch(elements.slice(start, end - start));
                }
            }
        }
    }

    /// Returns a factor of a step.
    fn factor(&self, position: Option<usize>) -> F {
        position.map_or(F::from_number(1.0), |position| self.factors[position])
    }

    fn run_tile(&mut self, at: usize, count: usize, step: usize) {
        let kernel = self.kernel;
        let end = self.part.region.end();
        let mut requested = end.min(at + step);
        let next = end.min(requested + count);
        for step in &kernel.steps {
            // Few elements in each step, so that the requests do not wait for each other.
            let end = next.min(requested + kernel.share);
            for &input in &kernel.streams {
                self.request(input, requested, end);
            }
            requested = end;
            let here = Here {
                sources: self.sources,
                slots: &self.part.slots,
                destinations: &self.destinations,
                start: kernel.at_level(at, step.level),
                count: kernel.at_level(count, step.level),
            };
            let register = step.output;
            match step.work {
                Work::Load { input, pattern } => {
                    self.tiles
                        .load::<F>(register, step.dtype, input, pattern, &here);
                }
                Work::Called(elementwise, types) => {
                    self.tiles
                        .call(elementwise, types, &step.operands, register, &here);
                }
                Work::Elementwise(elementwise) => {
                    let factor = step.factors[0].map(|factor| self.factors[factor]);
                    if let (Elementwise::Unary(unary), Some(factor)) = (elementwise, factor) {
                        self.tiles
                            .call_scaled(unary, step.operands[0], factor, register, &here);
                    } else {
                        let types = Types::of_own(elementwise, F::dtype(), step.dtype);
                        self.tiles
                            .call(elementwise, types, &step.operands, register, &here);
                    }
                }
                Work::Arithmetic(arithmetic) => {
                    let factors = [0, 1].map(|operand| self.factor(step.factors[operand]));
                    self.tiles.apply_arithmetic(
                        arithmetic,
                        &step.operands,
                        factors,
                        step.output,
                        &here,
                    );
                }
                Work::Chain(chain) => {
                    let factors = step.factors.map(|factor| self.factor(factor));
                    self.tiles
                        .apply_chain(chain, &step.operands, factors, step.output, &here);
                }
                Work::Choice(comparison) => {
                    self.tiles
                        .apply_choice::<F>(comparison, &step.operands, register, &here);
                }
                Work::Limit(comparison) => {
                    self.tiles
                        .apply_limit::<F>(comparison, &step.operands, register, &here);
                }
                Work::Convert => self.tiles.copy::<F>(step.operands[0], register, &here),
                Work::Spread => {
                    let rows = step.operands[0];
                    self.tiles
                        .spread::<F>(step.dtype, rows, register, kernel.row, count);
                }
                Work::Rows(fold) => {
                    let elements = Here {
                        start: at,
                        count,
                        ..here
                    };
                    self.tiles.fold_rows::<F>(
                        fold,
                        step.operands[0],
                        register,
                        kernel.row,
                        &elements,
                    );
                }
                Work::Columns { total } => {
                    let tile = self.tiles.elements(step.operands[0], &here);
                    self.part.accumulators.add(total, tile, at);
                }
            }
            if step.is_narrowed {
                self.tiles.narrow::<F>(step.dtype, register, here.count);
            }
        }
        self.store(at, count);
    }

    /// Copies the results of a tile that are in registers to memory.
    fn store(&mut self, at: usize, count: usize) {
        let kernel = self.kernel;
        for (store, slot) in kernel.stores.iter().zip(&mut self.part.slots) {
            let (from, length) = (
                kernel.at_level(at, store.level),
                kernel.at_level(count, store.level),
            );
            if self.destinations[store.register].is_none() {
                let dtype = store.info.dtype;
                self.tiles
                    .store::<F>(dtype, store.register, slot, from, length);
            }
        }
    }
}
