//! A kernel with its inputs and the memory of its results.

use std::sync::Arc;

use pytree_base::bug::{bug, expect_some};
use smallvec::SmallVec;

use super::followed::{FollowedOperands, with_target};
use super::program::{Kernel, Product};
use super::running::ThreadPart;
use crate::base::array::{Array, Operands};
use crate::base::data::Data;
use crate::base::divided::{Divided, Results};
use crate::base::dtype::DType;
use crate::base::narrow::Half;
use crate::base::target::{Region, Then};
use crate::base::threads::{self, Piece};
use crate::fused::places::KernelInput;
use crate::fused::steps::{Arithmetic, Chain, Level, Step, Work};
use crate::fused::tiles::registers::Float;
use crate::fused::tiles::totals::Totals;
use crate::loops::elementwise::classes::Memory;
use crate::loops::elementwise::{Binary, Elementwise, Unary};

/// The number of elements for which one thread runs a step of cost 1 in a nanosecond.
const PER_NANOSECOND: usize = 10;

/// The last operand of a kernel that follows a product, as text for the panic message of a library bug.
const RIGHT: &str = "the right operand of a product";

/// A kernel with its inputs and the memory of its results.
struct Prepared<'k, F> {
    kernel: &'k Kernel,
    inputs: Inputs,
    product: Option<(&'k Product, FollowedOperands<'k>)>,
    /// The stored results. If the kernel follows a product whose memory no result has taken, the last one is that of the product.
    results: Results,
    totals: Totals<'k, F>,
}

/// The inputs of a kernel.
struct Inputs {
    arrays: Operands,
    /// For each input, the position of the result that has its memory.
    taken: SmallVec<[Option<usize>; 8]>,
}

impl Inputs {
    fn sources(&self) -> SmallVec<[KernelInput<'_>; 8]> {
        let each = self.arrays.iter().zip(&self.taken);
        each.map(|(array, taken)| match taken {
            Some(result) => KernelInput::Result(*result),
            None => KernelInput::Array(array),
        })
        .collect()
    }

    /// Returns the memory into which a product writes its result.
    #[allow(
        unsafe_code,
        reason = "a product and its kernel use the same elements one after the other"
    )]
    fn memory<'s, F: Float>(&self, product: &Product, whole: &ThreadPart<'s, F>) -> Memory<'s> {
        let result = expect_some(self.taken[product.input], "the memory of a product");
        // SAFETY: the kernel uses the elements of a region only after the product has computed the region, on the same thread.
        unsafe { whole.slots[result].shared() }
    }
}

/// Returns the part of a kernel with the elements of a region.
#[allow(
    unsafe_code,
    reason = "two parts write to the same memory, but not to the same elements"
)]
fn part<'s, F: Float>(whole: &ThreadPart<'s, F>, region: Region) -> ThreadPart<'s, F> {
    // SAFETY: the regions of a kernel are different, and begin at multiples of its grain. A region within rows exists only if the
    // kernel has no rows and its totals are rows of the same length.
    unsafe { whole.shared(region) }
}

/// The memory of inputs that results may take.
struct Offers {
    /// For each input, the position of the result that has its memory.
    taken: SmallVec<[Option<usize>; 8]>,
    /// The memory of the product, which is an input with the given position.
    product: Option<(usize, Array)>,
}

impl Offers {
    /// Takes the memory of an input for the result with the given position, if nothing else uses the memory.
    fn take(&mut self, array: &mut Arc<Array>, input: usize, result: usize) -> Option<Data> {
        if self.taken[input].is_some() {
            return None;
        }
        let mut product = self
            .product
            .take_if(|(product, _)| *product == input)
            .map(|(_, product)| product);
        let memory = match &mut product {
            Some(product) => product,
            None => Arc::get_mut(array)?,
        };
        let data = memory.take_data()?;
        self.taken[input] = Some(result);
        Some(data)
    }
}

impl<'k, F: Float> Prepared<'k, F> {
    fn new(kernel: &'k Kernel, mut arrays: Operands) -> Self {
        let product = kernel.product.as_ref().map(|product| {
            let right = expect_some(arrays.pop(), RIGHT);
            let left = Arc::clone(&arrays[product.input]);
            (product, product.followed.operands(left, right))
        });
        let mut memory = Offers {
            taken: smallvec::smallvec![None; arrays.len()],
            product: kernel
                .product
                .as_ref()
                .map(|product| (product.input, Array::reused(&product.result))),
        };
        let mut results: Results = Results::with_capacity(kernel.stores.len() + 1);
        for store in &kernel.stores {
            let position = results.len();
            let data = { store.takes.iter() }
                .find_map(|&input| memory.take(&mut arrays[input], input, position));
            results.push(match data {
                Some(data) => Array::from_data(store.info.clone(), data),
                None => Array::reused(&store.info),
            });
        }
        if let Some((input, array)) = memory.product.take() {
            memory.taken[input] = Some(results.len());
            results.push(array);
        }
        let taken = memory.taken;
        Self {
            kernel,
            inputs: Inputs { arrays, taken },
            product,
            results,
            totals: Totals::new(&kernel.totals, kernel.length),
        }
    }

    /// Runs the kernel. Several threads share it if it is long.
    fn run(mut self) -> Results {
        self.compute();
        self.finish()
    }

    fn compute(&mut self) {
        let kernel = self.kernel;
        let (inputs, product, whole) = self.shared();
        let sources = inputs.sources();
        let run = |region: Region| kernel.run_part(&sources, part(&whole, region));
        if let Some((product, operands)) = product {
            let then = Then {
                run: &run,
                following: product.following,
            };
            return operands.compute(inputs.memory(product, &whole), threads::count(), then);
        }
        let chunk = kernel.chunk_length(threads::count());
        if chunk < kernel.length {
            threads::run_parts(kernel.regions(chunk).collect(), run);
        } else {
            run(Region::between(0, kernel.length));
        }
    }

    /// Returns the inputs, the product, and a part with all elements.
    fn shared(
        &mut self,
    ) -> (
        &Inputs,
        Option<&(&'k Product, FollowedOperands<'k>)>,
        ThreadPart<'_, F>,
    ) {
        let whole = ThreadPart {
            region: Region::between(0, self.kernel.length),
            slots: self.results.iter_mut().map(Memory::new).collect(),
            accumulators: self.totals.accumulators(),
        };
        (&self.inputs, self.product.as_ref(), whole)
    }

    /// Returns the stored results, followed by the totals and the product.
    fn finish(self) -> Results {
        let mut results = self.results;
        let extra = (results.len() > self.kernel.stores.len())
            .then(|| results.pop())
            .flatten();
        results.extend(self.totals.into_arrays());
        results.extend(extra.filter(|_| self.product.is_some_and(|(product, _)| product.is_kept)));
        results
    }
}

impl<F: Float> Divided for Prepared<'_, F> {
    fn pieces<'a>(&'a mut self, count: usize, pieces: &mut Vec<Piece<'a>>) {
        let kernel = self.kernel;
        let (inputs, product, whole) = self.shared();
        let Some((product, operands)) = product else {
            let chunk = kernel
                .length
                .div_ceil(count)
                .max(1)
                .next_multiple_of(kernel.grain);
            for region in kernel.regions(chunk) {
                let part = part(&whole, region);
                pieces.push(Box::new(move || kernel.run_part(&inputs.sources(), part)));
            }
            return;
        };
        let following = product.following;
        let mut add = |multiply: Multiply<'a>| {
            let own = part(&whole, whole.region);
            pieces.push(Box::new(move || {
                let sources = inputs.sources();
                multiply(Then {
                    run: &|region| kernel.run_part(&sources, part(&own, region)),
                    following,
                });
            }));
        };
        let memory = inputs.memory(product, &whole);
        match operands {
            FollowedOperands::Product(operands) if product.is_divisible => {
                with_target!(memory, target => {
                    for part in operands.parts(target, count, Some(&following)) {
                        add(Box::new(move |then| part(Some(then.run))));
                    }
                });
            }
            _ => add(Box::new(move |then| operands.compute(memory, 1, then))),
        }
    }

    fn results(self: Box<Self>) -> Results {
        self.finish()
    }
}

/// A part of a product, with what follows it.
type Multiply<'a> = Box<dyn FnOnce(Then<'_>) + Send + 'a>;

impl Kernel {
    /// Runs the kernel on arrays, and returns its stored results, followed by its totals.
    pub fn run(&self, inputs: Operands) -> Results {
        match self.float {
            DType::F64 => Prepared::<f64>::new(self, inputs).run(),
            _ => Prepared::<f32>::new(self, inputs).run(),
        }
    }

    /// Prepares the kernel to run in pieces on several threads.
    pub fn divided(&self, inputs: Operands) -> Box<dyn Divided + '_> {
        match self.float {
            DType::F64 => Box::new(Prepared::<f64>::new(self, inputs)),
            _ => Box::new(Prepared::<f32>::new(self, inputs)),
        }
    }

    /// Returns about how many nanoseconds one thread takes for the kernel.
    pub fn nanoseconds(&self) -> usize {
        self.own_nanoseconds()
            + self
                .product
                .as_ref()
                .map_or(0, |product| product.nanoseconds)
    }

    /// Returns about how many nanoseconds one thread takes for the steps of the kernel.
    pub(super) fn own_nanoseconds(&self) -> usize {
        let at_elements =
            |step: &&Step| step.level == Level::Element || matches!(step.work, Work::Rows(_));
        let costs = self
            .steps
            .iter()
            .filter(at_elements)
            .map(|step| step.work.cost());
        self.length * costs.sum::<usize>() / PER_NANOSECOND
    }

    /// Returns the number of elements of a chunk, which one thread runs. There is one chunk for each thread if there is enough work: each
    /// thread then works on the same part of the arrays in one kernel after the other.
    fn chunk_length(&self, threads: usize) -> usize {
        if threads::are_worth(self.nanoseconds()) {
            let shortest = self.length.div_ceil(threads);
            shortest.next_multiple_of(self.grain)
        } else {
            self.length
        }
    }

    /// Divides the elements into regions of `chunk` elements.
    fn regions(&self, chunk: usize) -> impl Iterator<Item = Region> + use<> {
        let length = self.length;
        let starts = (0..length).step_by(chunk);
        starts.map(move |start| Region::between(start, length.min(start + chunk)))
    }
}

impl Work {
    /// Returns about how many times as long as an addition a step takes.
    fn cost(self) -> usize {
        const DIVISION: usize = 4;
        const FUNCTION: usize = 5;
        let divides = |arithmetic| matches!(arithmetic, Arithmetic::Div);
        let operation = match self {
            Self::Arithmetic(arithmetic) if divides(arithmetic) => return DIVISION,
            Self::Chain(Chain { first, second, .. }) if divides(first) || divides(second) => {
                return DIVISION;
            }
            Self::Elementwise(operation) | Self::Called(operation, _) => operation,
            _ => return 1,
        };
        match operation {
            Elementwise::Unary(
                Unary::Neg | Unary::Abs | Unary::Sign | Unary::Not | Unary::StopGradient,
            )
            | Elementwise::Binary(
                Binary::Add
                | Binary::Sub
                | Binary::Mul
                | Binary::Max
                | Binary::Min
                | Binary::And
                | Binary::Or
                | Binary::Xor
                | Binary::ShiftLeft
                | Binary::ShiftRight
                | Binary::ShiftRightArithmetic,
            )
            | Elementwise::Compare(_)
            | Elementwise::Convert(_)
            | Elementwise::Select => 1,
            Elementwise::Unary(_) | Elementwise::Binary(_) => FUNCTION,
        }
    }
}
