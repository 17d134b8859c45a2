//! The program of a fused kernel.

use std::fmt;

use pytree_base::bug::expect_some;
use smallvec::SmallVec;

use super::followed::Followed;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::target::Following;
use crate::fused::places::{Filler, OperandPlace};
use crate::fused::steps::{Filled, Level, Step, Work};
use crate::fused::tiles::totals::Total;
use crate::loops::elementwise::classes::class_of;
use crate::loops::elementwise::{Binary, Comparison, Elementwise};

/// The maximum number of elements of a tile, unless a single row is longer. A register then holds 4 KiB of f32. A step
/// needs some nanoseconds for each tile, which shorter tiles would not outweigh by a better use of the first-level cache.
pub(super) const TILE: usize = 1024;

/// The maximum number of elements of a tile whose inputs are requested before it runs. The requested elements of the next tile
/// share the first-level cache with the registers.
pub(super) const STREAMED_TILE: usize = 512;

/// If a repeated row has at most this many elements, a tile may hold whole repetitions of the row.
pub(super) const LONGEST_UNIT: usize = 1024;

/// The bytes of all inputs of a kernel from which on the next tile is requested before it runs. Smaller arrays are often in the
/// third-level cache, from which the processor reads fast enough without requests. The update of the weights of a layer reads more.
pub(super) const STREAMED: usize = 8 << 20;

/// The expected content of a register, as text for the panic message of a library bug.
const MADE: &str = "a register that an earlier step of the kernel has filled";

/// A value that a kernel writes to memory.
#[derive(Debug)]
pub(super) struct Store {
    /// The register that is copied to memory at the end of each tile, unless a step writes the value to memory.
    pub(super) register: usize,
    /// If a step can write the value to memory: the inputs whose memory the value may have then. No later step reads them.
    pub(super) direct: Option<SmallVec<[usize; 4]>>,
    pub(super) level: Level,
    pub(super) info: AbstractArray,
    /// The positions of the inputs whose memory the result may overwrite, if no other handle of the input exists.
    pub(super) takes: SmallVec<[usize; 4]>,
}

/// The product or convolution that a kernel follows.
#[derive(Debug)]
pub(super) struct Product {
    pub(super) followed: Followed,
    /// The input of the kernel that is the result of the product.
    pub(super) input: usize,
    pub(super) result: AbstractArray,
    pub(super) following: Following,
    /// About how many nanoseconds one thread takes for the product.
    pub(super) nanoseconds: usize,
    pub(super) is_divisible: bool,
    /// Whether a later step reads the result of the product.
    pub(super) is_kept: bool,
}

/// Several operations that run in one loop over tiles.
#[derive(Debug)]
pub struct Kernel {
    pub(super) float: DType,
    pub(super) length: usize,
    pub(super) row: usize,
    pub(super) tile: usize,
    /// Chunks begin at multiples of this number of elements, so that each chunk has whole rows, whole repetitions and
    /// whole blocks of totals.
    pub(super) grain: usize,
    /// The product whose result the kernel reads, if the kernel continues with the parts of this product. The input at the place of
    /// the result is then the left operand, and the right operand is the last input.
    pub(super) product: Option<Product>,
    pub(super) fills: Vec<Filled>,
    pub(super) factors: Vec<Filler>,
    pub(super) steps: Vec<Step>,
    pub(super) stores: Vec<Store>,
    pub(super) totals: Vec<Total>,
    pub(super) registers: usize,
    /// The types that each register holds.
    pub(super) held: Vec<(DType, usize)>,
    /// The inputs whose elements a tile reads from memory, if they are too many for the caches. While a tile runs, those of the
    /// next tile are requested.
    pub(super) streams: Vec<usize>,
    /// The number of elements of each of these inputs that one step requests.
    pub(super) share: usize,
}

impl Kernel {
    /// Lets values that are never needed at the same time share a register.
    pub(super) fn assign_registers(&mut self) {
        let mut last_use = vec![0; self.registers];
        for (position, step) in self.steps.iter().enumerate() {
            last_use[step.output] = position;
            for operand in &step.operands {
                if let OperandPlace::Register(register) = operand {
                    last_use[*register] = position;
                }
            }
        }
        let mut is_stored = vec![false; self.registers];
        for store in &self.stores {
            is_stored[store.register] = true;
        }
        let kept = self.stores.iter().map(|store| store.register);
        for register in kept.chain(self.fills.iter().map(|filled| filled.register)) {
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
        for Filled { register, .. } in &mut self.fills {
            let new = next(&mut free);
            assigned[*register] = Some(new);
            *register = new;
        }
        for (position, step) in self.steps.iter_mut().enumerate() {
            // The result gets its own register, because the step reads its operands while it writes the result. A stored result shares
            // its register with no other value, because the register may stand for memory.
            let output = if is_stored[step.output] {
                next(&mut Vec::new())
            } else {
                next(&mut free)
            };
            assigned[step.output] = Some(output);
            let mut released: SmallVec<[usize; 4]> = SmallVec::new();
            for operand in &mut step.operands {
                if let OperandPlace::Register(register) = operand {
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
        let fills = self
            .fills
            .iter()
            .map(|filled| (filled.dtype, filled.register));
        let outputs = self.steps.iter().map(|step| (step.dtype, step.output));
        let held = fills
            .chain(outputs)
            .map(|(dtype, register)| (class_of(dtype), register));
        self.held = held.collect();
        self.held.sort_unstable();
        self.held.dedup();
    }
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
        if let Some(product) = &self.product {
            write!(f, "{separator}{}", product.followed.name())?;
            separator = ", ";
        }
        for step in &self.steps {
            for _ in step.factors.iter().flatten() {
                write!(f, "{separator}mul")?;
                separator = ", ";
            }
            match step.work {
                Work::Load { .. } | Work::Spread => continue,
                Work::Arithmetic(arithmetic) => write!(f, "{separator}{}", arithmetic.name())?,
                Work::Elementwise(elementwise) | Work::Called(elementwise, _) => {
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
                Work::Choice(comparison) => {
                    let name = Elementwise::Compare(comparison).name();
                    write!(f, "{separator}{name}, {}", Elementwise::Select.name())?;
                }
                Work::Limit(comparison) => {
                    let is_less = comparison == Comparison::Lt;
                    let name = if is_less { Binary::Min } else { Binary::Max };
                    write!(f, "{separator}{}", Elementwise::Binary(name).name())?;
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
