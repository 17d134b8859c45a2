//! A kernel with its inputs and the memory of its results.

use std::sync::Arc;

use smallvec::SmallVec;

use super::running::Part;
use super::{Arithmetic, Chain, Kernel, Level, Step, Work};
use crate::base::array::{Array, Data};
use crate::base::dtype::DType;
use crate::base::threads::{self, Piece};
use crate::executor::tiles::{Float, Slot, Source, Totals};
use crate::tensor::elementwise::{Binary, Elementwise, Unary};
use crate::tensor::primitive::{Divided, Operands, Outputs};

/// The number of elements for which one thread runs a step of cost 1 in a nanosecond.
const PER_NANOSECOND: usize = 10;

/// The maximum number of chunks per thread. A chunk consists of consecutive tiles that one thread runs. With several chunks per
/// thread, other threads can take over the work of a delayed thread.
const CHUNKS_PER_THREAD: usize = 4;

/// The least number of nanoseconds of a chunk, if there are more chunks than threads. Each chunk first fills the registers of all
/// constants and repeated rows.
const SHORTEST_CHUNK: usize = 10_000;

/// A kernel with its inputs and the memory of its results.
pub(super) struct Prepared<'k, F> {
    kernel: &'k Kernel,
    inputs: Inputs,
    results: Outputs<Array>,
    totals: Totals<'k, F>,
}

/// The inputs of a kernel.
struct Inputs {
    arrays: Operands,
    /// For each input, the position of the result that has taken its memory.
    taken: SmallVec<[Option<usize>; 8]>,
}

impl Inputs {
    fn sources(&self) -> SmallVec<[Source<'_>; 8]> {
        let each = self.arrays.iter().zip(&self.taken);
        each.map(|(array, taken)| match taken {
            Some(result) => Source::Result(*result),
            None => Source::Array(array),
        })
        .collect()
    }
}

impl<'k, F: Float> Prepared<'k, F> {
    pub(super) fn new(kernel: &'k Kernel, mut inputs: Operands) -> Self {
        let mut taken: SmallVec<[Option<usize>; 8]> = smallvec::smallvec![None; inputs.len()];
        let results: Outputs<Array> = kernel
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
        Self {
            kernel,
            inputs: Inputs {
                arrays: inputs,
                taken,
            },
            results,
            totals: Totals::new(&kernel.totals, kernel.length),
        }
    }

    /// Runs the kernel. Several threads share it if it is long.
    pub(super) fn run(mut self) -> Outputs<Array> {
        let kernel = self.kernel;
        let chunk = kernel.chunk_length(threads::count());
        let (inputs, whole) = self.whole();
        let sources = inputs.sources();
        if chunk < kernel.length {
            threads::run_parts(kernel.divide(whole, chunk), |part| {
                kernel.run_part(&sources, part);
            });
        } else {
            kernel.run_part(&sources, whole);
        }
        drop(sources);
        self.finish()
    }

    /// Returns the inputs, and a part with all elements.
    fn whole(&mut self) -> (&Inputs, Part<'_, F>) {
        let whole = Part {
            start: 0,
            end: self.kernel.length,
            slots: self.results.iter_mut().map(Slot::<F>::new).collect(),
            accumulators: self.totals.accumulators(),
        };
        (&self.inputs, whole)
    }

    /// Returns the stored results, followed by the totals.
    fn finish(self) -> Outputs<Array> {
        let mut results = self.results;
        results.extend(self.totals.into_arrays());
        results
    }
}

impl<F: Float> Divided for Prepared<'_, F> {
    fn pieces<'a>(&'a mut self, count: usize, pieces: &mut Vec<Piece<'a>>) {
        let kernel = self.kernel;
        let chunk = kernel.length.div_ceil(count).next_multiple_of(kernel.grain);
        let (inputs, whole) = self.whole();
        for part in kernel.divide(whole, chunk) {
            pieces.push(Box::new(move || kernel.run_part(&inputs.sources(), part)));
        }
    }

    fn results(self: Box<Self>) -> Outputs<Array> {
        self.finish()
    }
}

impl Kernel {
    /// Runs the kernel on arrays, and returns its stored results, followed by its totals.
    pub(in crate::executor) fn run(&self, inputs: Operands) -> Outputs<Array> {
        match self.float {
            DType::F64 => Prepared::<f64>::new(self, inputs).run(),
            _ => Prepared::<f32>::new(self, inputs).run(),
        }
    }

    /// Prepares the kernel to run in pieces on several threads.
    pub(in crate::executor) fn divided(&self, inputs: Operands) -> Box<dyn Divided + '_> {
        match self.float {
            DType::F64 => Box::new(Prepared::<f64>::new(self, inputs)),
            _ => Box::new(Prepared::<f32>::new(self, inputs)),
        }
    }

    /// Returns about how many nanoseconds one thread takes for the kernel.
    pub(in crate::executor) fn nanoseconds(&self) -> usize {
        let at_elements =
            |step: &&Step| step.level == Level::Element || matches!(step.work, Work::Rows(_));
        let costs = self
            .steps
            .iter()
            .filter(at_elements)
            .map(|step| step.work.cost());
        self.length * costs.sum::<usize>() / PER_NANOSECOND
    }

    /// Returns the number of elements of a chunk. If there is enough work, there is at least one chunk for each thread.
    fn chunk_length(&self, threads: usize) -> usize {
        let nanoseconds = self.nanoseconds();
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
}

impl Work {
    /// Returns about how many times as long as an addition a step takes.
    fn cost(self) -> usize {
        const DIVISION: usize = 4;
        const FUNCTION: usize = 5;
        let divides = |arithmetic| matches!(arithmetic, Arithmetic::Div);
        match self {
            Self::Arithmetic(arithmetic) if divides(arithmetic) => DIVISION,
            Self::Chain(Chain { first, second, .. }) if divides(first) || divides(second) => {
                DIVISION
            }
            Self::Elementwise(
                Elementwise::Unary(
                    Unary::Neg | Unary::Abs | Unary::Sign | Unary::Not | Unary::StopGradient,
                )
                | Elementwise::Binary(
                    Binary::Max | Binary::Min | Binary::And | Binary::Or | Binary::Xor,
                )
                | Elementwise::Compare(_)
                | Elementwise::Convert(_)
                | Elementwise::Select,
            ) => 1,
            Self::Elementwise(_) => FUNCTION,
            _ => 1,
        }
    }
}
