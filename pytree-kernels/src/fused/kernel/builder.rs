//! Builds a fused kernel, operation by operation.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use super::program::{Kernel, LONGEST_UNIT, STREAMED, STREAMED_TILE, Store, TILE};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::fold::Fold;
use crate::base::numbers::least_common_multiple;
use crate::base::pattern::Pattern;
use crate::base::prefetch::LINE;
use crate::fused::places::{Filler, OperandPlace};
use crate::fused::steps::{Arithmetic, Fill, Filled, Level, Step, Types, Work};
use crate::fused::tiles::totals::Total;
use crate::loops::elementwise::classes::class_of;
use crate::loops::elementwise::{Binary, Elementwise, Unary};

/// The maximum number of inputs that one result may overwrite. Each run of the kernel checks all of these inputs, so a
/// great number would take time.
const MOST_OFFERS: usize = 4;

/// The inputs that a result may overwrite.
#[derive(Default)]
struct Fitting {
    inputs: Vec<usize>,
    /// The number of inputs that a result overwrites first. Each result prefers another one.
    preferred: usize,
}

/// Builds a fused kernel from operations that are added one by one. Each operation returns the register of its result.
#[derive(Debug)]
pub struct KernelBuilder {
    kernel: Kernel,
    /// The dtype and shape of each input.
    inputs: Vec<AbstractArray>,
}

impl KernelBuilder {
    /// Begins a kernel of `length` elements in rows of `row` elements. It holds floats as `float`, which is f32 or f64.
    pub fn new(float: DType, length: usize, row: usize) -> Self {
        Self {
            kernel: Kernel {
                float,
                length,
                row,
                tile: 1,
                grain: 1,
                product: None,
                fills: Vec::new(),
                factors: Vec::new(),
                steps: Vec::new(),
                stores: Vec::new(),
                totals: Vec::new(),
                registers: 0,
                held: Vec::new(),
                streams: Vec::new(),
                share: 1,
            },
            inputs: Vec::new(),
        }
    }

    fn register(&mut self) -> usize {
        self.kernel.registers += 1;
        self.kernel.registers - 1
    }

    fn fill(&mut self, number: Filler, dtype: DType) -> usize {
        let register = self.register();
        self.kernel.fills.push(Filled {
            fill: Fill::Number(number),
            dtype,
            register,
        });
        register
    }

    /// Adds a step. `dtype` is the dtype of its result.
    fn step(
        &mut self,
        work: Work,
        level: Level,
        operands: SmallVec<[OperandPlace; 3]>,
        dtype: DType,
    ) -> usize {
        let output = self.register();
        self.kernel.steps.push(Step {
            work,
            level,
            dtype,
            is_narrowed: class_of(dtype) != dtype && !work.is_exact(dtype),
            operands,
            factors: [None; 4],
            output,
        });
        output
    }

    /// Adds an input. Returns its position.
    pub fn input(&mut self, info: AbstractArray) -> usize {
        self.inputs.push(info);
        self.inputs.len() - 1
    }

    /// Fills a register with a number of a dtype.
    pub fn constant(&mut self, value: f64, dtype: DType) -> usize {
        self.fill(Filler::Constant(value), dtype)
    }

    /// Fills a register with the only element of an input.
    pub fn scalar(&mut self, input: usize) -> usize {
        self.fill(Filler::Scalar { input }, self.inputs[input].dtype)
    }

    /// Reads an input and repeats its elements by a pattern.
    pub fn load(&mut self, input: usize, pattern: Pattern, level: Level) -> usize {
        let dtype = self.inputs[input].dtype;
        self.step(Work::Load { input, pattern }, level, SmallVec::new(), dtype)
    }

    /// Repeats the single number of each row along the row. The numbers have a dtype.
    pub fn spread(&mut self, rows: usize, level: Level, dtype: DType) -> usize {
        let rows = smallvec::smallvec![OperandPlace::Register(rows)];
        self.step(Work::Spread, level, rows, dtype)
    }

    /// Applies an operation to each element. `from` is the dtype of the operands that are no conditions, and `to` that of the result.
    pub fn elementwise(
        &mut self,
        operation: Elementwise,
        level: Level,
        operands: SmallVec<[OperandPlace; 3]>,
        [from, to]: [DType; 2],
    ) -> usize {
        let [is_float, becomes_float] =
            [from, to].map(|dtype| class_of(dtype) == self.kernel.float);
        let is_own = match operation {
            Elementwise::Compare(_) => is_float,
            Elementwise::Convert(_) => becomes_float && (is_float || from == DType::Bool),
            Elementwise::Unary(Unary::Not)
            | Elementwise::Binary(Binary::And | Binary::Or | Binary::Xor) => to == DType::Bool,
            _ => becomes_float,
        };
        let work = match operation {
            _ if !is_own => Work::Called(operation, Types { from, to }),
            Elementwise::Convert(_) if is_float => Work::Convert,
            _ => Arithmetic::of(operation).map_or(Work::Elementwise(operation), Work::Arithmetic),
        };
        self.step(work, level, operands, to)
    }

    /// Reduces each row to one number of a dtype.
    pub fn fold_rows(&mut self, fold: Fold, operand: OperandPlace, dtype: DType) -> usize {
        let operands = smallvec::smallvec![operand];
        self.step(Work::Rows(fold), Level::Row, operands, dtype)
    }

    /// Reduces all rows of `period` elements to one row. The kernel returns it after all stored values.
    pub fn fold_columns(
        &mut self,
        fold: Fold,
        period: usize,
        info: AbstractArray,
        operand: OperandPlace,
    ) {
        let total = self.kernel.totals.len();
        let length = self.kernel.length;
        self.kernel
            .totals
            .push(Total::new(fold, period, length, info));
        let work = Work::Columns { total };
        let operands = smallvec::smallvec![operand];
        self.step(work, Level::Element, operands, self.kernel.float);
    }

    /// Returns the value of a register as a result of the kernel.
    pub fn store(&mut self, register: usize, level: Level, info: AbstractArray) {
        self.kernel.stores.push(Store {
            register,
            direct: None,
            level,
            info,
            takes: SmallVec::new(),
        });
    }

    /// Returns the kernel.
    pub fn finish(mut self) -> Kernel {
        self.find_memory_to_take();
        self.kernel.replace_operations();
        self.kernel.absorb_factors();
        self.kernel.join_chains();
        self.kernel.split_conditions();
        self.kernel.join_choices();
        self.kernel.limit();
        self.kernel.find_streams();
        self.choose_tile();
        self.choose_grain();
        self.kernel.find_direct();
        self.kernel.assign_registers();
        self.kernel.share_streams();
        self.kernel
    }

    /// Chooses the number of elements of a tile. A tile holds whole rows. If the kernel has no rows but repeats a row
    /// of an input, a tile holds whole repetitions, so that the repeated row is read only once.
    fn choose_tile(&mut self) {
        let kernel = &mut self.kernel;
        let period = |step: &Step| match step.work {
            Work::Load {
                pattern: Pattern::Cycle { period },
                ..
            } if step.level == Level::Element && period <= LONGEST_UNIT => Some(period),
            _ => None,
        };
        let unit = if kernel.row > 1 {
            kernel.row
        } else {
            kernel.steps.iter().filter_map(period).max().unwrap_or(1)
        };
        let wanted = if kernel.streams.is_empty() {
            TILE
        } else {
            STREAMED_TILE
        };
        kernel.tile = unit * (wanted / unit).max(1);
        let tile = kernel.tile;
        let fills = &mut kernel.fills;
        kernel.steps.retain(|step| match step.work {
            Work::Load {
                input,
                pattern: Pattern::Cycle { period },
            } if step.level == Level::Element && tile.is_multiple_of(period) => {
                fills.push(Filled {
                    fill: Fill::Row { input, period },
                    dtype: step.dtype,
                    register: step.output,
                });
                false
            }
            _ => true,
        });
    }

    /// Computes the grain: a chunk may begin only at an element whose position is a multiple of the grain. At each
    /// multiple, a new row and a new repetition of each repeated row begin. If the kernel has totals, a new block of
    /// each total also begins.
    fn choose_grain(&mut self) {
        let kernel = &mut self.kernel;
        let rows = kernel.fills.iter().filter_map(|filled| match filled.fill {
            Fill::Row { period, .. } => Some(period),
            Fill::Number(_) => None,
        });
        let blocks = kernel.totals.iter().map(Total::block);
        let grain = rows
            .chain(blocks)
            .try_fold(kernel.row, least_common_multiple);
        // If the least common multiple overflows, it is greater than the length of the kernel, so the kernel is not
        // divided.
        let grain = grain.unwrap_or(kernel.length).max(1);
        kernel.grain = grain * kernel.tile.div_ceil(grain);
    }

    /// Finds, for each result, the inputs that the result may overwrite. Each element of such an input is read only to
    /// compute the element of the result at the same position.
    fn find_memory_to_take(&mut self) {
        let kernel = &mut self.kernel;
        let mut levels: Vec<Option<Level>> = vec![None; self.inputs.len()];
        let mut repeated = vec![false; self.inputs.len()];
        for filled in &kernel.fills {
            if let Fill::Number(Filler::Scalar { input }) | Fill::Row { input, .. } = filled.fill {
                repeated[input] = true;
            }
        }
        for step in &kernel.steps {
            let level = match step.work {
                Work::Rows(_) | Work::Columns { .. } => Level::Element,
                _ => step.level,
            };
            if let Some(input) = step.repeated() {
                repeated[input] = true;
            }
            for input in step.inputs() {
                repeated[input] |= levels[input].is_some_and(|known| known != level);
                levels[input] = Some(level);
            }
        }
        let mut fitting: HashMap<(Level, DType, usize), Fitting> = HashMap::new();
        for (input, info) in self.inputs.iter().enumerate() {
            if let (Some(level), false) = (levels[input], repeated[input]) {
                let key = (level, info.dtype, info.len());
                fitting.entry(key).or_default().inputs.push(input);
            }
        }
        for store in &mut kernel.stores {
            let key = (store.level, store.info.dtype, store.info.len());
            let Some(Fitting { inputs, preferred }) = fitting.get_mut(&key) else {
                continue;
            };
            let own = inputs.get(*preferred).copied();
            *preferred += 1;
            let others = inputs.iter().copied().filter(|&it| Some(it) != own);
            store.takes = own.into_iter().chain(others).take(MOST_OFFERS).collect();
        }
    }
}

impl Kernel {
    /// Finds the inputs that a long kernel of several steps reads element by element. The processor requests those of a single step
    /// soon enough itself.
    fn find_streams(&mut self) {
        let mut known = HashSet::new();
        let steps = self.steps.iter();
        let of_elements = steps.filter(|step| step.level == Level::Element);
        let inputs = of_elements.flat_map(Step::inputs);
        let streams: Vec<usize> = inputs.filter(|&input| known.insert(input)).collect();
        let bytes = streams.len() * self.length * self.float.bytes();
        if self.steps.len() > 1 && bytes >= STREAMED {
            self.streams = streams;
        }
    }

    /// Divides the requests of the next tile among the steps.
    fn share_streams(&mut self) {
        let share = self.tile.div_ceil(self.steps.len().max(1));
        self.share = share.next_multiple_of(LINE / self.float.bytes());
    }
}

impl Work {
    /// Returns whether the result of a narrower dtype needs no rounding or wrapping. A total is rounded when it is complete, outside
    /// of the step.
    fn is_exact(self, dtype: DType) -> bool {
        match self {
            Self::Elementwise(operation) | Self::Called(operation, _) => match operation {
                Elementwise::Select
                | Elementwise::Binary(
                    Binary::Max | Binary::Min | Binary::And | Binary::Or | Binary::Xor,
                ) => true,
                Elementwise::Unary(Unary::Neg | Unary::Abs) => dtype.is_float(),
                _ => false,
            },
            Self::Load { .. }
            | Self::Spread
            | Self::Columns { .. }
            | Self::Choice(_)
            | Self::Limit(_) => true,
            Self::Rows(fold) => fold != Fold::Sum,
            Self::Convert | Self::Arithmetic(_) | Self::Chain(_) => false,
        }
    }
}
