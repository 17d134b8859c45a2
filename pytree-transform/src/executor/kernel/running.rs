//! Runs a part of a kernel tile by tile.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

use pytree_core::bug::expect_some;
use smallvec::SmallVec;

use super::{Fill, Kernel, Level, Number, Work};
use crate::base::instructions::arch;
use crate::base::prefetch::prefetch;
use crate::executor::tiles::{Accumulators, Float, Slot, Source, Tiles};
use crate::executor::views::Pattern;

impl Kernel {
    pub(super) fn run_part<F: Float>(&self, sources: &[Source<'_>], part: Part<'_, F>) {
        let mut tiles = Tiles::<F>::borrow(self.registers, self.tile);
        for &(fill, register) in &self.fills {
            match fill {
                Fill::Number(number) => tiles.fill(register, number.value(sources)),
                Fill::Row { input, period } => {
                    tiles.cycle(register, sources[input].elements(), period, 0, self.tile);
                }
            }
        }
        let mut chunk = Chunk {
            kernel: self,
            sources,
            factors: self
                .factors
                .iter()
                .map(|factor| factor.value(sources))
                .collect(),
            part,
            tiles,
        };
        arch().dispatch(&mut chunk);
    }

    /// Converts a number of elements to a number of values of the given level (elements or rows).
    #[inline(always)]
    pub(super) fn at_level(&self, elements: usize, level: Level) -> usize {
        match level {
            Level::Element => elements,
            Level::Row => elements / self.row,
        }
    }
}

impl Number {
    fn value<F: Float>(self, sources: &[Source<'_>]) -> F {
        match self {
            Self::Constant(value) => F::from_f64(value),
            Self::Scalar { input } => {
                let first = sources[input].elements::<F>().get(0);
                expect_some(first, "one element of a value without axes")
            }
        }
    }
}

/// The elements from `start` to `end`, and the memory for the results of these elements.
pub(super) struct Part<'s, F: Float> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) slots: SmallVec<[Slot<'s, F>; 2]>,
    pub(super) accumulators: Accumulators<'s, F>,
}

/// Consecutive tiles of a kernel. The loop over the tiles is compiled once for each instruction set.
struct Chunk<'a, 's, F: Float> {
    kernel: &'a Kernel,
    sources: &'a [Source<'a>],
    factors: SmallVec<[F; 8]>,
    part: Part<'s, F>,
    tiles: Tiles<F>,
}

impl<F: Float> pulp::WithSimd for &mut Chunk<'_, '_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Part { start, end, .. } = self.part;
        let mut at = start;
        while at < end {
            let count = self.kernel.tile.min(end - at);
            self.run_tile(at, count);
            at += count;
        }
        self.part.accumulators.end(end);
    }
}

impl<F: Float> Chunk<'_, '_, F> {
    /// Requests elements of an input that the next tile reads.
    #[inline(always)]
    fn request(&self, input: usize, start: usize, end: usize) {
        let elements = match self.sources[input] {
            Source::Array(array) => F::slice(&array.data).map(|elements| &elements[start..end]),
            Source::Result(result) => match &self.part.slots[result] {
                Slot::Floats(elements) => {
                    let first = self.part.start;
                    Some(&elements[start - first..end - first])
                }
                Slot::Halves(..) | Slot::Bools(_) => None,
            },
        };
        if let Some(elements) = elements {
            prefetch(elements);
        }
    }

    /// Returns a factor of a step.
    #[inline(always)]
    fn factor(&self, position: Option<usize>) -> F {
        position.map_or(F::from_f64(1.0), |position| self.factors[position])
    }

    #[inline(always)]
    fn run_tile(&mut self, at: usize, count: usize) {
        let (kernel, first) = (self.kernel, self.part.start);
        let mut requested = at + count;
        let next = self.part.end.min(requested + kernel.tile);
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
                chunk: kernel.at_level(first, step.level),
                start: kernel.at_level(at, step.level),
                count: kernel.at_level(count, step.level),
            };
            match step.work {
                Work::Load { input, pattern } => {
                    let (output, source) = (step.output, self.sources[input].elements());
                    match pattern {
                        Pattern::Cycle { period } => {
                            self.tiles
                                .cycle(output, source, period, here.start, here.count);
                        }
                        Pattern::Stretch { times } => {
                            self.tiles
                                .stretch(output, source, times, here.start, here.count);
                        }
                        Pattern::Same => {
                            self.tiles.load(output, source, here.start, here.count);
                        }
                        Pattern::Scalar => {}
                    }
                }
                Work::Elementwise(elementwise) => {
                    let factor = self.factor(step.factors[0]);
                    self.tiles
                        .apply(elementwise, &step.operands, factor, step.output, &here);
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
                Work::Convert => self.tiles.copy(step.operands[0], step.output, &here),
                Work::Spread => self
                    .tiles
                    .spread(step.operands[0], step.output, kernel.row, count),
                Work::Rows(fold) => {
                    let elements = Here {
                        chunk: first,
                        start: at,
                        count,
                        ..here
                    };
                    self.tiles.fold_rows(
                        fold,
                        step.operands[0],
                        step.output,
                        kernel.row,
                        &elements,
                    );
                }
                Work::Columns { total } => {
                    let tile = self.tiles.floats(step.operands[0], &here);
                    self.part.accumulators.add(total, tile, at);
                }
            }
            if let Some(half) = step.round {
                self.tiles.round(half, step.output, here.count);
            }
        }
        for (position, store) in kernel.stores.iter().enumerate() {
            let (from, length) = (
                kernel.at_level(at - first, store.level),
                kernel.at_level(count, store.level),
            );
            self.tiles
                .store(store.register, &mut self.part.slots[position], from, length);
        }
    }
}

/// The current tile, and the arrays that its steps read.
pub(in crate::executor) struct Here<'a, 's, F> {
    pub(in crate::executor) sources: &'a [Source<'a>],
    pub(in crate::executor) slots: &'a [Slot<'s, F>],
    /// The first element of the chunk.
    pub(in crate::executor) chunk: usize,
    /// The first element of the tile (`start`), and the number of elements of the tile (`count`).
    pub(in crate::executor) start: usize,
    pub(in crate::executor) count: usize,
}
