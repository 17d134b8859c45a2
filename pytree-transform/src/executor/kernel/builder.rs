//! Builds a fused kernel, equation by equation.

use hashbrown::HashMap;
use pytree_core::bug::expect_some;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::narrow::Half;
use pytree_kernels::base::numbers::least_common_multiple;
use pytree_kernels::base::prefetch::LINE;
use smallvec::SmallVec;

use super::{
    Arithmetic, Fill, Kernel, LONGEST_UNIT, Level, Number, Place, STREAMED, STREAMED_TILE, Step,
    Store, TILE, Total, Work,
};
use crate::executor::schedule::{Planner, Resolved, Role};
use crate::executor::views::Pattern;
use crate::tensor::elementwise::{Binary, Elementwise, Unary};
use crate::tensor::jaxpr::{Equation, Variable};
use crate::tensor::primitive::Fold;

/// The maximum number of inputs that one result may overwrite. Each run of the kernel checks all of these inputs, so a
/// great number would take time.
const MOST_OFFERS: usize = 4;

/// Builds a fused kernel from equations that are added one by one.
pub(in crate::executor) struct KernelBuilder<'p, 'j> {
    planner: &'p Planner<'j>,
    kernel: Kernel,
    /// The register and the level of each value that the kernel computes.
    inside: HashMap<Variable, (usize, Level)>,
    loads: Vec<(Resolved, Level, usize)>,
    total_outputs: Vec<Variable>,
}

impl<'p, 'j> KernelBuilder<'p, 'j> {
    pub(in crate::executor) fn new(
        planner: &'p Planner<'j>,
        float: DType,
        length: usize,
        row: usize,
    ) -> Self {
        Self {
            planner,
            kernel: Kernel {
                float,
                length,
                row,
                tile: 1,
                grain: 1,
                inputs: Vec::new(),
                outputs: Vec::new(),
                product: None,
                fills: Vec::new(),
                factors: Vec::new(),
                steps: Vec::new(),
                stores: Vec::new(),
                totals: Vec::new(),
                registers: 0,
                streams: Vec::new(),
                share: 1,
            },
            inside: HashMap::new(),
            loads: Vec::new(),
            total_outputs: Vec::new(),
        }
    }

    fn register(&mut self) -> usize {
        self.kernel.registers += 1;
        self.kernel.registers - 1
    }

    fn input(&mut self, variable: Variable) -> usize {
        let inputs = &mut self.kernel.inputs;
        if let Some(position) = inputs.iter().position(|&known| known == variable) {
            return position;
        }
        inputs.push(variable);
        inputs.len() - 1
    }

    fn fill(&mut self, number: Number, register: usize) {
        self.kernel.fills.push((Fill::Number(number), register));
    }

    fn step(&mut self, work: Work, level: Level, operands: SmallVec<[Place; 3]>) -> usize {
        let output = self.register();
        self.kernel.steps.push(Step {
            work,
            level,
            round: None,
            operands,
            factors: [None; 4],
            output,
        });
        output
    }

    /// Returns the half-precision type of a variable, or `None` if it has another dtype.
    fn half(&self, variable: Variable) -> Option<Half> {
        Half::of(self.planner.jaxpr.info(variable).dtype)
    }

    /// Returns the half-precision type to which a step must round the result of an equation, or `None` if no rounding
    /// is necessary.
    fn rounding(&self, equation: &Equation, work: Work) -> Option<Half> {
        let is_exact = match work {
            Work::Elementwise(Elementwise::Binary(binary)) => {
                matches!(binary, Binary::Max | Binary::Min)
            }
            Work::Elementwise(Elementwise::Unary(unary)) => {
                matches!(unary, Unary::Neg | Unary::Abs)
            }
            // Selections, maxima and minima are exact. A total is rounded when it is complete, outside of this step.
            Work::Elementwise(Elementwise::Select)
            | Work::Rows(Fold::Max | Fold::Min)
            | Work::Columns { .. } => true,
            _ => false,
        };
        let half = self.half(equation.outputs[0]);
        half.filter(|_| !is_exact)
    }

    /// Returns the place from which a step reads a variable. `level` says whether the place holds one number for each
    /// element or for each row. If necessary, adds the steps that load or repeat the value.
    fn place(&mut self, variable: Variable, level: Level) -> Place {
        let resolved = self.planner.resolve(variable);
        if let Resolved::Value {
            base,
            pattern: Pattern::Same,
        } = resolved
        {
            match self.inside.get(&base) {
                Some(&(register, _)) => return Place::Register(register),
                None if self.half(base).is_none() => return Place::Input(self.input(base)),
                // A step below loads the half-precision floats into a register of f32.
                None => {}
            }
        }
        let known = self
            .loads
            .iter()
            .find(|(other, at, _)| *at == level && other.is(&resolved));
        if let Some(&(_, _, register)) = known {
            return Place::Register(register);
        }
        let register = match resolved {
            Resolved::Constant(value) => {
                let register = self.register();
                self.fill(Number::Constant(value), register);
                register
            }
            Resolved::Value {
                base,
                pattern: Pattern::Scalar,
            } => {
                let (input, register) = (self.input(base), self.register());
                self.fill(Number::Scalar { input }, register);
                register
            }
            Resolved::Value { base, pattern } => {
                if let Some(&(register, _)) = self.inside.get(&base) {
                    let of_rows = Place::Register(register);
                    self.step(Work::Spread, level, smallvec::smallvec![of_rows])
                } else {
                    let input = self.input(base);
                    self.step(Work::Load { input, pattern }, level, SmallVec::new())
                }
            }
        };
        self.loads.push((resolved, level, register));
        Place::Register(register)
    }

    /// Adds the step that computes an equation.
    pub(in crate::executor) fn add(&mut self, equation: &Equation, role: Role) {
        let output = equation.outputs[0];
        let (work, level, from) = match role {
            Role::Elementwise(Elementwise::Convert(_), level) if self.reads_floats(equation) => {
                (Work::Convert, level, level)
            }
            Role::Elementwise(elementwise, level) => {
                let work = Arithmetic::of(elementwise);
                let work = work.map_or(Work::Elementwise(elementwise), Work::Arithmetic);
                (work, level, level)
            }
            Role::Rows(fold) => (Work::Rows(fold), Level::Row, Level::Element),
            Role::Columns { fold, period } => {
                let info = self.planner.jaxpr.info(output).clone();
                let total = Total::new(fold, period, self.kernel.length, info);
                self.kernel.totals.push(total);
                self.total_outputs.push(output);
                let total = self.kernel.totals.len() - 1;
                (Work::Columns { total }, Level::Element, Level::Element)
            }
        };
        let operands = equation
            .inputs
            .iter()
            .map(|&input| self.place(input, from))
            .collect();
        let register = self.step(work, level, operands);
        let round = self.rounding(equation, work);
        if let Some(step) = self.kernel.steps.last_mut() {
            step.round = round;
        }
        self.inside.insert(output, (register, level));
    }

    fn reads_floats(&self, equation: &Equation) -> bool {
        self.planner.jaxpr.info(equation.inputs[0]).dtype.is_float()
    }

    /// Makes the kernel write the value of `variable` to memory. The kernel must already compute this value.
    pub(in crate::executor) fn store(&mut self, variable: Variable) {
        let made = self.inside.get(&variable);
        let &(register, level) = expect_some(made, "a value that the kernel computes");
        self.kernel.outputs.push(variable);
        self.kernel.stores.push(Store {
            register,
            direct: None,
            level,
            info: self.planner.jaxpr.info(variable).clone(),
            takes: SmallVec::new(),
        });
    }

    pub(in crate::executor) fn finish(mut self) -> Kernel {
        self.kernel.outputs.append(&mut self.total_outputs);
        self.kernel.find_streams();
        self.choose_tile();
        self.choose_grain();
        self.find_memory_to_take();
        self.kernel.absorb_factors();
        self.kernel.join_chains();
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
                fills.push((Fill::Row { input, period }, step.output));
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
        let rows = kernel.fills.iter().filter_map(|(fill, _)| match fill {
            Fill::Row { period, .. } => Some(*period),
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
        let mut levels: Vec<Option<Level>> = vec![None; kernel.inputs.len()];
        let mut repeated = vec![false; kernel.inputs.len()];
        for (fill, _) in &kernel.fills {
            if let Fill::Number(Number::Scalar { input }) | Fill::Row { input, .. } = fill {
                repeated[*input] = true;
            }
        }
        for step in &kernel.steps {
            if let Work::Load { input, .. } = step.work {
                repeated[input] = true;
            }
            let level = match step.work {
                Work::Rows(_) | Work::Columns { .. } => Level::Element,
                _ => step.level,
            };
            for operand in &step.operands {
                if let Place::Input(input) = *operand {
                    repeated[input] |= levels[input].is_some_and(|known| known != level);
                    levels[input] = Some(level);
                }
            }
        }
        // Prefer an input that no other result may overwrite yet.
        let mut offered = vec![false; kernel.inputs.len()];
        for store in &mut kernel.stores {
            let fits = |&input: &usize| {
                let info = self.planner.jaxpr.info(kernel.inputs[input]);
                !repeated[input]
                    && levels[input] == Some(store.level)
                    && info.dtype == store.info.dtype
                    && info.len() == store.info.len()
            };
            let inputs = 0..kernel.inputs.len();
            let own = inputs.clone().find(|input| !offered[*input] && fits(input));
            own.into_iter().for_each(|input| offered[input] = true);
            let others = inputs.filter(|input| Some(*input) != own && fits(input));
            store.takes = own.into_iter().chain(others).take(MOST_OFFERS).collect();
        }
    }
}

impl Kernel {
    /// Finds the inputs that a long kernel reads element by element.
    fn find_streams(&mut self) {
        let mut streams: Vec<usize> = Vec::new();
        for step in self
            .steps
            .iter()
            .filter(|step| step.level == Level::Element)
        {
            let loaded = match step.work {
                Work::Load {
                    input,
                    pattern: Pattern::Same,
                } => Some(input),
                _ => None,
            };
            let read = step.operands.iter().filter_map(|place| match *place {
                Place::Input(input) => Some(input),
                Place::Register(_) => None,
            });
            for input in loaded.into_iter().chain(read) {
                if !streams.contains(&input) {
                    streams.push(input);
                }
            }
        }
        if streams.len() * self.length * self.float.bytes() >= STREAMED {
            self.streams = streams;
        }
    }

    /// Divides the requests of the next tile among the steps.
    fn share_streams(&mut self) {
        let share = self.tile.div_ceil(self.steps.len().max(1));
        self.share = share.next_multiple_of(LINE / self.float.bytes());
    }
}

impl Resolved {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Constant(left), Self::Constant(right)) => left.to_bits() == right.to_bits(),
            (
                Self::Value { base, pattern },
                Self::Value {
                    base: other_base,
                    pattern: other_pattern,
                },
            ) => base == other_base && pattern == other_pattern,
            _ => false,
        }
    }
}
