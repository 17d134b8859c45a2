//! Runs a kernel: divides its elements among threads, and each thread's elements into tiles.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

use std::sync::Arc;

use pytree_core::bug::expect_some;
use smallvec::SmallVec;

use super::{Fill, Kernel, Level, Number, Work};
use crate::base::array::{Array, Data};
use crate::base::dtype::DType;
use crate::base::instructions::arch;
use crate::base::prefetch::prefetch;
use crate::base::threads;
use crate::executor::tiles::{Accumulators, Float, Slot, Source, Tiles, Totals};
use crate::executor::views::Pattern;
use crate::tensor::primitive::{Operands, Outputs};

/// The number of elements for which one thread runs a step in a nanosecond.
const PER_NANOSECOND: usize = 20;

/// The maximum number of chunks per thread. A chunk consists of consecutive tiles that one thread runs. With several chunks per
/// thread, other threads can take over the work of a delayed thread.
const CHUNKS_PER_THREAD: usize = 4;

/// The least number of nanoseconds of a chunk, if there are more chunks than threads. Each chunk first fills the registers of all
/// constants and repeated rows.
const SHORTEST_CHUNK: usize = 10_000;

impl Kernel {
    /// Runs the kernel on arrays, and returns its stored results, followed by its totals.
    pub(in crate::executor) fn run(&self, inputs: Operands) -> Outputs<Array> {
        match self.float {
            DType::F64 => self.run_with::<f64>(inputs),
            _ => self.run_with::<f32>(inputs),
        }
    }

    fn run_with<F: Float>(&self, mut inputs: Operands) -> Outputs<Array> {
        let mut taken: SmallVec<[Option<usize>; 8]> = smallvec::smallvec![None; inputs.len()];
        let mut results: Outputs<Array> = self
            .stores
            .iter()
            .enumerate()
            .map(|(position, store)| {
                let own = store.takes.iter().find(|&&input| {
                    taken[input].is_none() && Arc::get_mut(&mut inputs[input]).is_some()
                });
                match own.and_then(|&input| Some((input, Arc::get_mut(&mut inputs[input])?))) {
                    Some((input, array)) => {
                        taken[input] = Some(position);
                        Array {
                            info: store.info.clone(),
                            data: std::mem::replace(&mut array.data, Data::Bool(Vec::new())),
                        }
                    }
                    None => Array::reused(&store.info),
                }
            })
            .collect();
        let sources: SmallVec<[Source<'_>; 8]> = inputs
            .iter()
            .zip(&taken)
            .map(|(array, taken)| match taken {
                Some(result) => Source::Result(*result),
                None => Source::Array(array),
            })
            .collect();
        let mut totals = Totals::new(&self.totals, self.length);
        let whole = Part {
            start: 0,
            end: self.length,
            slots: results.iter_mut().map(Slot::<F>::new).collect(),
            accumulators: totals.accumulators(),
        };
        let chunk = self.chunk_length(threads::count());
        if chunk < self.length {
            let parts = self.divide(whole, chunk);
            threads::run_parts(parts, |part| self.run_part(&sources, part));
        } else {
            self.run_part(&sources, whole);
        }
        drop(sources);
        results.extend(totals.into_arrays());
        results
    }

    /// Returns the number of elements of a chunk. If there is enough work, there is at least one chunk for each thread.
    fn chunk_length(&self, threads: usize) -> usize {
        let nanoseconds = self.length * self.steps.len() / PER_NANOSECOND;
        if !threads::are_worth(nanoseconds) {
            return self.length;
        }
        let most = threads * CHUNKS_PER_THREAD;
        let chunks = (nanoseconds / SHORTEST_CHUNK).max(threads).min(most);
        let shortest = self.length.div_ceil(chunks);
        shortest.next_multiple_of(self.grain)
    }

    /// Divides the elements `rest` and the memory of their results into parts of `chunk` elements.
    fn divide<'s, F: Float>(&self, mut rest: Part<'s, F>, chunk: usize) -> Vec<Part<'s, F>> {
        let mut parts = Vec::with_capacity((rest.end - rest.start).div_ceil(chunk));
        while rest.end - rest.start > chunk {
            let middle = rest.start + chunk;
            let (mut before, mut after) = (SmallVec::new(), SmallVec::new());
            for (slot, store) in rest.slots.into_iter().zip(&self.stores) {
                let (some, others) = slot.split_at(self.at_level(chunk, store.level));
                before.push(some);
                after.push(others);
            }
            let (own, others) = rest.accumulators.split_at(middle);
            parts.push(Part {
                start: rest.start,
                end: middle,
                slots: before,
                accumulators: own,
            });
            rest = Part {
                start: middle,
                end: rest.end,
                slots: after,
                accumulators: others,
            };
        }
        parts.push(rest);
        parts
    }

    fn run_part<F: Float>(&self, sources: &[Source<'_>], part: Part<'_, F>) {
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
    fn at_level(&self, elements: usize, level: Level) -> usize {
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
struct Part<'s, F: Float> {
    start: usize,
    end: usize,
    slots: SmallVec<[Slot<'s, F>; 2]>,
    accumulators: Accumulators<'s, F>,
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
