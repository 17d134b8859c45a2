//! A fused kernel: a program of steps that runs tile by tile.
//!
//! A register is a buffer for one tile, small enough to stay in the first-level cache. Intermediate values stay in
//! registers and are never written to memory. A tile holds whole rows, so that one step can reduce each row to a
//! number, and later steps can read this number.
//!
//! Half-precision floats are loaded into registers of f32. A step rounds each of its results to the half-precision
//! type. So the results have the same bits as without the kernel.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

mod builder;
mod chains;

use std::fmt;
use std::sync::Arc;

use pytree_core::bug::expect_some;
use smallvec::SmallVec;

pub(super) use self::builder::KernelBuilder;
pub(super) use self::chains::{Arithmetic, Chain, Side};
use super::tiles::{Accumulators, Float, Slot, Source, Tiles, Total, Totals};
use super::views::Pattern;
use crate::base::array::{Array, Data};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::instructions::arch;
use crate::base::narrow::Half;
use crate::base::prefetch::prefetch;
use crate::base::threads;
use crate::tensor::elementwise::Elementwise;
use crate::tensor::jaxpr::Variable;
use crate::tensor::primitive::{Fold, Operands, Outputs};

/// The maximum number of elements of a tile, unless a single row is longer. A register then holds 4 KiB of f32. A step
/// needs some nanoseconds for each tile, which shorter tiles would not outweigh by a better use of the first-level cache.
const TILE: usize = 1024;

/// If a repeated row has at most this many elements, a tile may hold whole repetitions of the row.
const LONGEST_UNIT: usize = 1024;

/// The bytes of all arrays of a kernel from which on the next tile is requested before it runs. Smaller arrays stay in the second-level cache.
const STREAMED: usize = 4 << 20;

/// The number of elements for which one thread runs a step in a nanosecond.
const PER_NANOSECOND: usize = 20;

/// The maximum number of chunks per thread. A chunk consists of consecutive tiles that one thread runs. With several chunks per
/// thread, other threads can take over the work of a delayed thread.
const CHUNKS_PER_THREAD: usize = 4;

/// The least number of nanoseconds of a chunk, if there are more chunks than threads. Each chunk first fills the registers of all
/// constants and repeated rows.
const SHORTEST_CHUNK: usize = 10_000;

/// The expected content of a register, as text for the panic message of a library bug.
const MADE: &str = "a register that an earlier step of the kernel has filled";

/// Whether a kernel value has one number for each element, or one number for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Element,
    Row,
}

/// Where a step reads an operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Register(usize),
    /// An input of the kernel, given by its position. The step reads the input without a copy.
    Input(usize),
}

/// The operation of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Reads an input of the kernel and repeats its elements by a pattern.
    Load {
        input: usize,
        pattern: Pattern,
    },
    Elementwise(Elementwise),
    Chain(Chain),
    /// Copies numbers, which the step then rounds to another dtype.
    Convert,
    /// Repeats the single number of each row along the row.
    Spread,
    /// Reduces each row to a number.
    Rows(Fold),
    /// Reduces all rows of the tile, element by element, to a single row, and adds this row to a total.
    Columns {
        total: usize,
    },
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) work: Work,
    /// Whether the step returns one number for each element, or one number for each row.
    pub(super) level: Level,
    /// The half-precision type to which the results are rounded. The register holds the rounded results as f32.
    pub(super) round: Option<Half>,
    pub(super) operands: SmallVec<[Place; 3]>,
    pub(super) output: usize,
}

/// How a register is filled before the first tile.
#[derive(Clone, Copy, Debug)]
enum Fill {
    Constant(f64),
    Scalar { input: usize },
    Row { input: usize, period: usize },
}

/// A value that a kernel writes to memory at the end of each tile.
#[derive(Debug)]
struct Store {
    register: usize,
    level: Level,
    info: AbstractArray,
    /// The positions of the inputs whose memory the result may overwrite, if no other handle of the input exists.
    takes: SmallVec<[usize; 4]>,
}

/// Several equations that run in one loop over tiles.
#[derive(Debug)]
pub(crate) struct Kernel {
    float: DType,
    length: usize,
    row: usize,
    tile: usize,
    /// Chunks begin at multiples of this number of elements, so that each chunk has whole rows, whole repetitions and
    /// whole blocks of totals.
    grain: usize,
    /// The variables that the kernel reads from memory, in the order of its inputs.
    pub(super) inputs: Vec<Variable>,
    /// The variables that the kernel writes to memory.
    pub(super) outputs: Vec<Variable>,
    fills: Vec<(Fill, usize)>,
    steps: Vec<Step>,
    stores: Vec<Store>,
    totals: Vec<Total>,
    registers: usize,
    /// The inputs whose elements a tile reads from memory, if they are too many for the caches. While a tile runs, those of the
    /// next tile are requested.
    streams: Vec<usize>,
}

impl Kernel {
    /// Lets values that are never needed at the same time share a register.
    fn assign_registers(&mut self) {
        let mut last_use = vec![0; self.registers];
        for (position, step) in self.steps.iter().enumerate() {
            last_use[step.output] = position;
            for operand in &step.operands {
                if let Place::Register(register) = operand {
                    last_use[*register] = position;
                }
            }
        }
        let kept = self.stores.iter().map(|store| store.register);
        for register in kept.chain(self.fills.iter().map(|&(_, register)| register)) {
            last_use[register] = usize::MAX;
        }
        let mut assigned: Vec<Option<usize>> = vec![None; self.registers];
        let mut free: Vec<usize> = Vec::new();
        let mut count = 0;
        let mut next = |free: &mut Vec<usize>| {
            free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            })
        };
        for (_, register) in &mut self.fills {
            let new = next(&mut free);
            assigned[*register] = Some(new);
            *register = new;
        }
        for (position, step) in self.steps.iter_mut().enumerate() {
            // The result gets its own register, because the step reads its operands while it writes the result.
            let output = next(&mut free);
            assigned[step.output] = Some(output);
            let mut released: SmallVec<[usize; 4]> = SmallVec::new();
            for operand in &mut step.operands {
                if let Place::Register(register) = operand {
                    let own = expect_some(assigned[*register], MADE);
                    if last_use[*register] == position && !released.contains(&own) {
                        released.push(own);
                    }
                    *register = own;
                }
            }
            if last_use[step.output] == position {
                released.push(output);
            }
            step.output = output;
            free.extend(released);
        }
        for store in &mut self.stores {
            store.register = expect_some(assigned[store.register], MADE);
        }
        self.registers = count;
    }

    /// Runs the kernel on arrays, and returns its stored results, followed by its totals.
    pub(super) fn run(&self, inputs: Operands) -> Outputs<Array> {
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
                Fill::Constant(value) => tiles.fill(register, F::from_f64(value)),
                Fill::Scalar { input } => {
                    let expected = "one element of a value without axes";
                    let first = sources[input].elements::<F>().get(0);
                    tiles.fill(register, expect_some(first, expected));
                }
                Fill::Row { input, period } => {
                    tiles.cycle(register, sources[input].elements(), period, 0, self.tile);
                }
            }
        }
        let mut chunk = Chunk {
            kernel: self,
            sources,
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
    /// Requests a part of the elements that the tile at `start` reads from an input: one part in each step of the tile before.
    #[inline(always)]
    fn request(&self, input: usize, start: usize, step: usize) {
        let end = self.part.end.min(start + self.kernel.tile);
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
            prefetch(elements, step, self.kernel.steps.len());
        }
    }

    #[inline(always)]
    fn run_tile(&mut self, at: usize, count: usize) {
        let (kernel, first) = (self.kernel, self.part.start);
        for (position, step) in kernel.steps.iter().enumerate() {
            for &input in &kernel.streams {
                self.request(input, at + count, position);
            }
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
                    self.tiles
                        .apply(elementwise, &step.operands, step.output, &here);
                }
                Work::Chain(chain) => {
                    self.tiles
                        .apply_chain(chain, &step.operands, step.output, &here);
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
pub(super) struct Here<'a, 's, F> {
    pub(super) sources: &'a [Source<'a>],
    pub(super) slots: &'a [Slot<'s, F>],
    /// The first element of the chunk.
    pub(super) chunk: usize,
    /// The first element of the tile (`start`), and the number of elements of the tile (`count`).
    pub(super) start: usize,
    pub(super) count: usize,
}

impl fmt::Display for Kernel {
    /// Writes the number of elements and the steps, for instance
    /// `131072 elements in rows of 256: sub, exp, reduce_sum rows`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements", self.length)?;
        if self.row > 1 {
            write!(f, " in rows of {}", self.row)?;
        }
        let mut separator = ": ";
        for step in &self.steps {
            match step.work {
                Work::Load { .. } | Work::Spread => continue,
                Work::Elementwise(elementwise) => {
                    write!(f, "{separator}{}", elementwise.name())?;
                }
                Work::Chain(chain) => {
                    write!(
                        f,
                        "{separator}{}, {}",
                        chain.first.name(),
                        chain.second.name()
                    )?;
                }
                Work::Convert => write!(f, "{separator}convert_element_type")?,
                Work::Rows(fold) => write!(f, "{separator}reduce_{} rows", fold.name())?,
                Work::Columns { total } => {
                    write!(f, "{separator}reduce_{}", self.totals[total].fold.name())?;
                }
            }
            separator = ", ";
        }
        Ok(())
    }
}
