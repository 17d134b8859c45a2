//! A fused kernel: a program of steps that runs tile by tile.
//!
//! A register is a buffer for one tile, small enough to stay in the first-level cache. Intermediate values stay in
//! registers and are never written to memory. A tile holds whole rows, so that one step can reduce each row to a
//! number, and later steps can read this number.
//!
//! Registers hold the types in which whole arrays are computed, too: half-precision floats are loaded into registers of f32, u32 into
//! registers of i64, and narrower integers into registers of i32. A step rounds or wraps each of its results to the narrower dtype.
//! So the results have the same bits as without the kernel. The floats of a kernel have one type, f32 or f64.

/// Runs an expression with `$target` as the memory of a product, whose type the kernel computes with or widens.
macro_rules! with_target {
    ($memory:expr, $target:ident => $body:expr) => {
        match $memory {
            Memory::F32($target) => $body,
            Memory::F64($target) => $body,
            Memory::Half(Half::BF16, bits) => {
                let $target = bits.of_bf16();
                $body
            }
            Memory::Half(Half::F16, bits) => {
                let $target = bits.of_f16();
                $body
            }
            _ => bug("a product of floats"),
        }
    };
}

mod arithmetic;
mod builder;
mod choices;
mod direct;
mod following;
mod prepared;
mod running;

use std::fmt;

use pytree_base::bug::expect_some;
use smallvec::SmallVec;

pub(super) use self::arithmetic::{Arithmetic, Chain, Side};
pub use self::builder::KernelBuilder;
pub use self::following::Followed;
pub(super) use self::running::Here;
use super::tiles::{Total, Types};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::fold::Fold;
use crate::base::pattern::Pattern;
use crate::base::target::Following;
use crate::loops::elementwise::classes::class_of;
use crate::loops::elementwise::{Binary, Comparison, Elementwise};

/// The maximum number of elements of a tile, unless a single row is longer. A register then holds 4 KiB of f32. A step
/// needs some nanoseconds for each tile, which shorter tiles would not outweigh by a better use of the first-level cache.
const TILE: usize = 1024;

/// The maximum number of elements of a tile whose inputs are requested before it runs. The requested elements of the next tile
/// share the first-level cache with the registers.
const STREAMED_TILE: usize = 512;

/// If a repeated row has at most this many elements, a tile may hold whole repetitions of the row.
const LONGEST_UNIT: usize = 1024;

/// The bytes of all inputs of a kernel from which on the next tile is requested before it runs. Smaller arrays are often in the
/// third-level cache, from which the processor reads fast enough without requests. The update of the weights of a layer reads more.
const STREAMED: usize = 8 << 20;

/// The expected content of a register, as text for the panic message of a library bug.
const MADE: &str = "a register that an earlier step of the kernel has filled";

/// Whether a kernel value has one number for each element, or one number for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One number for each element.
    Element,
    /// One number for each row.
    Row,
}

/// Returns the dtype of the numbers of registers that hold elements of a dtype. If it is wider, a step loads the elements.
pub fn held_as(dtype: DType) -> DType {
    class_of(dtype)
}

/// Where a step reads an operand.
#[derive(Clone, Copy, Debug)]
pub enum OperandPlace {
    /// A register, given by its number.
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
    /// An elementwise operation of any types, which runs in a loop outside of the kernel's.
    Called(Elementwise, Types),
    Arithmetic(Arithmetic),
    Chain(Chain),
    /// Compares two numbers and chooses one of two others. The operands are the numbers to compare, followed by the number where the
    /// comparison holds, and the number elsewhere.
    Choice(Comparison),
    /// Chooses the number that is greater or less than the other, and the second one if they are equal or one is NaN.
    Limit(Comparison),
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
    /// The dtype of the results.
    pub(super) dtype: DType,
    /// Whether the results are rounded or wrapped to their dtype, which is narrower than the numbers of the register.
    pub(super) is_narrowed: bool,
    pub(super) operands: SmallVec<[OperandPlace; 3]>,
    /// For each operand, the position of its factor in [`Kernel::factors`], and last that of the factor between the operations of a
    /// chain. Only operations of arithmetic and operations with one operand have factors.
    pub(super) factors: Factors,
    pub(super) output: usize,
}

impl Step {
    /// Returns the inputs of which the step reads the elements at the positions of its results.
    fn inputs(&self) -> impl Iterator<Item = usize> {
        let loaded = match self.work {
            Work::Load { input, pattern } => (pattern == Pattern::Same).then_some(input),
            _ => None,
        };
        let operands = self.operands.iter().filter_map(|place| match *place {
            OperandPlace::Input(input) => Some(input),
            OperandPlace::Register(_) => None,
        });
        operands.chain(loaded)
    }

    /// Returns the input whose elements the step repeats.
    fn repeated(&self) -> Option<usize> {
        match self.work {
            Work::Load { input, pattern } => (pattern != Pattern::Same).then_some(input),
            _ => None,
        }
    }
}

/// The positions of the factors of a step. `None` means 1, and multiplication by 1 changes no number.
pub(super) type Factors = [Option<usize>; 4];

/// A number that is the same for all elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filler {
    /// A number of the dtype of the register or of the step that has it.
    Constant(f64),
    /// The only element of an input.
    Scalar { input: usize },
}

/// How a register is filled before the first tile.
#[derive(Clone, Copy, Debug)]
enum Fill {
    Number(Filler),
    Row { input: usize, period: usize },
}

/// A register that is filled before the first tile.
#[derive(Clone, Copy, Debug)]
struct Filled {
    fill: Fill,
    dtype: DType,
    register: usize,
}

/// A value that a kernel writes to memory.
#[derive(Debug)]
struct Store {
    /// The register that is copied to memory at the end of each tile, unless a step writes the value to memory.
    register: usize,
    /// If a step can write the value to memory: the inputs whose memory the value may have then. No later step reads them.
    direct: Option<SmallVec<[usize; 4]>>,
    level: Level,
    info: AbstractArray,
    /// The positions of the inputs whose memory the result may overwrite, if no other handle of the input exists.
    takes: SmallVec<[usize; 4]>,
}

/// The product or convolution that a kernel follows.
#[derive(Debug)]
struct Product {
    followed: Followed,
    /// The input of the kernel that is the result of the product.
    input: usize,
    result: AbstractArray,
    following: Following,
    /// About how many nanoseconds one thread takes for the product.
    nanoseconds: usize,
    is_divisible: bool,
    /// Whether a later step reads the result of the product.
    is_kept: bool,
}

/// Several operations that run in one loop over tiles.
#[derive(Debug)]
pub struct Kernel {
    float: DType,
    length: usize,
    row: usize,
    tile: usize,
    /// Chunks begin at multiples of this number of elements, so that each chunk has whole rows, whole repetitions and
    /// whole blocks of totals.
    grain: usize,
    /// The product whose result the kernel reads, if the kernel continues with the parts of this product. The input at the place of
    /// the result is then the left operand, and the right operand is the last input.
    product: Option<Product>,
    fills: Vec<Filled>,
    factors: Vec<Filler>,
    steps: Vec<Step>,
    stores: Vec<Store>,
    totals: Vec<Total>,
    registers: usize,
    /// The types that each register holds.
    held: Vec<(DType, usize)>,
    /// The inputs whose elements a tile reads from memory, if they are too many for the caches. While a tile runs, those of the
    /// next tile are requested.
    streams: Vec<usize>,
    /// The number of elements of each of these inputs that one step requests.
    share: usize,
}

impl Kernel {
    /// Lets values that are never needed at the same time share a register.
    fn assign_registers(&mut self) {
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
