//! Builds a fused kernel, equation by equation.

use hashbrown::HashMap;
use pytree_base::bug::expect_some;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::pattern::Pattern;
use pytree_kernels::fused::{KernelBuilder, Level, OperandPlace, held_as};

use super::kernel::FusedKernel;
use super::planner::{Planner, Resolved, Role};
use crate::tensor::jaxpr::{Equation, Variable};

/// Builds a fused kernel from equations that are added one by one.
pub(super) struct FusedBuilder<'p, 'j> {
    planner: &'p Planner<'j>,
    kernel: KernelBuilder,
    inputs: Vec<Variable>,
    /// The position of each input.
    positions: HashMap<Variable, usize>,
    outputs: Vec<Variable>,
    /// The register and the level of each value that the kernel computes.
    inside: HashMap<Variable, (usize, Level)>,
    /// The registers of values that a kernel loads or repeats.
    loads: HashMap<(Identity, DType, Level), usize>,
    total_outputs: Vec<Variable>,
}

impl<'p, 'j> FusedBuilder<'p, 'j> {
    pub(super) fn new(planner: &'p Planner<'j>, float: DType, length: usize, row: usize) -> Self {
        Self {
            planner,
            kernel: KernelBuilder::new(float, length, row),
            inputs: Vec::new(),
            positions: HashMap::new(),
            outputs: Vec::new(),
            inside: HashMap::new(),
            loads: HashMap::new(),
            total_outputs: Vec::new(),
        }
    }

    fn input(&mut self, variable: Variable) -> usize {
        let kernel = &mut self.kernel;
        *self.positions.entry(variable).or_insert_with(|| {
            self.inputs.push(variable);
            kernel.input(self.planner.jaxpr.info(variable).clone())
        })
    }

    fn dtype(&self, variable: Variable) -> DType {
        self.planner.jaxpr.info(variable).dtype
    }

    /// Returns the place from which a step reads a variable. `level` says whether the place holds one number for each
    /// element or for each row. If necessary, adds the steps that load or repeat the value.
    fn place(&mut self, variable: Variable, level: Level) -> OperandPlace {
        let resolved = self.planner.resolve(variable);
        if let Resolved::Value {
            base,
            pattern: Pattern::Same,
        } = resolved
        {
            match self.inside.get(&base) {
                Some(&(register, _)) => return OperandPlace::Register(register),
                None if held_as(self.dtype(base)) == self.dtype(base) => {
                    return OperandPlace::Input(self.input(base));
                }
                // A step below loads the elements into a register of a wider type.
                None => {}
            }
        }
        let dtype = self.dtype(variable);
        let key = (resolved.identity(), dtype, level);
        if let Some(&register) = self.loads.get(&key) {
            return OperandPlace::Register(register);
        }
        let register = match resolved {
            Resolved::Constant(value) => self.kernel.constant(value, dtype),
            Resolved::Value {
                base,
                pattern: Pattern::Scalar,
            } => {
                let input = self.input(base);
                self.kernel.scalar(input)
            }
            Resolved::Value { base, pattern } => {
                if let Some(&(register, _)) = self.inside.get(&base) {
                    self.kernel.spread(register, level, dtype)
                } else {
                    let input = self.input(base);
                    self.kernel.load(input, pattern, level)
                }
            }
        };
        self.loads.insert(key, register);
        OperandPlace::Register(register)
    }

    /// Adds the step that computes an equation.
    pub(super) fn add(&mut self, equation: &Equation, role: Role) {
        let output = equation.outputs[0];
        let dtype = self.dtype(output);
        let (register, level) = match role {
            Role::Elementwise(elementwise, level) => {
                let inputs = equation.inputs.iter();
                let operands = inputs.map(|&input| self.place(input, level)).collect();
                let from = expect_some(equation.inputs.last(), "an operand of an operation");
                let dtypes = [self.dtype(*from), dtype];
                (
                    self.kernel
                        .elementwise(elementwise, level, operands, dtypes),
                    level,
                )
            }
            Role::Rows(fold) => {
                let operand = self.place(equation.inputs[0], Level::Element);
                (self.kernel.fold_rows(fold, operand, dtype), Level::Row)
            }
            Role::Columns { fold, period } => {
                let operand = self.place(equation.inputs[0], Level::Element);
                let info = self.planner.jaxpr.info(output).clone();
                self.kernel.fold_columns(fold, period, info, operand);
                self.total_outputs.push(output);
                return;
            }
        };
        self.inside.insert(output, (register, level));
    }

    /// Makes the kernel write the value of `variable` to memory. The kernel must already compute this value.
    pub(super) fn store(&mut self, variable: Variable) {
        let made = self.inside.get(&variable);
        let &(register, level) = expect_some(made, "a value that the kernel computes");
        let info = self.planner.jaxpr.info(variable).clone();
        self.kernel.store(register, level, info);
        self.outputs.push(variable);
    }

    pub(super) fn finish(mut self) -> FusedKernel {
        self.outputs.append(&mut self.total_outputs);
        FusedKernel {
            kernel: self.kernel.finish(),
            inputs: self.inputs,
            outputs: self.outputs,
        }
    }
}

/// What tells resolved values apart: a variable with a pattern, or the bits of a constant.
type Identity = Result<(Variable, Pattern), u64>;

impl Resolved {
    fn identity(&self) -> Identity {
        match *self {
            Self::Constant(number) => Err(number.to_bits()),
            Self::Value { base, pattern } => Ok((base, pattern)),
        }
    }
}
