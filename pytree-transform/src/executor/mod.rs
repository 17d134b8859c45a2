//! The CPU executor: runs a jaxpr on concrete arrays.
//!
//! Chains of elementwise equations and reductions run in one fused kernel. Each value is dropped right after the last
//! operation that uses it. So this operation may write its result into the memory of the value.

mod builder;
mod kernel;
mod lent;
mod products;
mod schedule;
mod short;
mod stages;
#[cfg(test)]
mod tests;
mod views;

use std::ops::Range;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use pytree_base::bug::{bug, expect_some, pairs};
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::divided::Divided;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::threads::{self, Piece};
use pytree_kernels::fused::Kernel;
use pytree_kernels::loops::elementwise::short::ShortProgram;
use smallvec::SmallVec;

use self::kernel::FusedKernel;
use self::lent::Lent;
use self::products::join_products;
use self::schedule::{Scheduled, schedule};
use self::stages::{Share, Stage, arrange};
use crate::passes::optimize_for_host;
use crate::primitives::body::program::{Program, Slots};
use crate::primitives::dot::product_of;
use crate::tensor::evaluation::evaluate;
use crate::tensor::jaxpr::{INPUTS, Jaxpr, OPERAND, OUTPUT, RESULTS, Variable, constant_array};
use crate::tensor::primitive::{Outputs, Primitive};
use crate::tensor::trace::at_line;

/// The elements that belong to the steps of a stage, as text for the panic message of a library bug.
const STEPS: &str = "one of them for each step of a stage";

/// A scheduled jaxpr that is ready to run.
pub(crate) struct Executable {
    slots: usize,
    constants: Vec<(usize, Arc<Array>)>,
    inputs: Vec<usize>,
    steps: Vec<Step>,
    stages: Vec<Stage>,
    outputs: Vec<usize>,
    /// The program in the form that a loop runs, if it has one.
    short: Option<ShortProgram>,
    /// The bytes of the value in each slot. Those of a constant count as none, because its memory stays.
    bytes: Vec<usize>,
    /// How the program runs on inputs that the caller lends. Computed when they are first lent.
    lent: OnceLock<Lent>,
}

struct Step {
    work: Work,
    inputs: SmallVec<[Use; 4]>,
    outputs: SmallVec<[usize; 1]>,
}

enum Work {
    One(Arc<dyn Primitive>),
    /// A collective, with the line that recorded it. Processes compare their lines.
    Collective(Arc<dyn Primitive>, &'static Location<'static>),
    Kernel(Box<Kernel>),
}

/// A use of a value by a step. The step with the last use may write its result over the value.
#[derive(Clone, Copy)]
struct Use {
    slot: usize,
    last: bool,
}

impl Step {
    /// Takes the operands of the step out of the memory of a program.
    fn operands(&self, values: &mut Slots) -> Operands {
        let operand = |used: &Use| {
            let value = if used.last {
                values[used.slot].take()
            } else {
                values[used.slot].clone()
            };
            expect_some(value, OPERAND)
        };
        self.inputs.iter().map(operand).collect()
    }

    /// Puts the results of the step into the memory of a program.
    fn keep(&self, results: Outputs<Array>, values: &mut Slots) {
        for (&slot, result) in pairs(&self.outputs, results, RESULTS) {
            values[slot] = Some(Arc::new(result));
        }
    }
}

impl Work {
    fn run(&self, operands: Operands) -> Outputs<Array> {
        match self {
            Self::One(primitive) => evaluate(&**primitive, operands),
            Self::Collective(primitive, line) => at_line(line, || evaluate(&**primitive, operands)),
            Self::Kernel(kernel) => kernel.run(operands),
        }
    }

    /// Returns whether the evaluation may fail although it has enough memory.
    fn can_fail(&self) -> bool {
        match self {
            Self::One(primitive) => primitive.can_fail(),
            // Another process may end.
            Self::Collective(..) => true,
            Self::Kernel(_) => false,
        }
    }

    /// Prepares the evaluation for several threads.
    fn divided(&self, operands: Operands) -> Box<dyn Divided + '_> {
        match self {
            Self::Kernel(kernel) => kernel.divided(operands),
            Self::One(primitive) | Self::Collective(primitive, _) => {
                let product = product_of(&**primitive);
                let divided = product.and_then(|dot| dot.divided(&operands[0], &operands[1]));
                divided.unwrap_or_else(|| Box::new(Undivided::Waiting(&**primitive, operands)))
            }
        }
    }
}

/// The evaluation of a primitive in one piece.
enum Undivided<'p> {
    Waiting(&'p dyn Primitive, Operands),
    Done(Outputs<Array>),
}

impl Divided for Undivided<'_> {
    fn pieces<'a>(&'a mut self, _: usize, pieces: &mut Vec<Piece<'a>>) {
        pieces.push(Box::new(move || {
            if let Self::Waiting(primitive, operands) = self {
                *self = Self::Done(evaluate(*primitive, std::mem::take(operands)));
            }
        }));
    }

    fn results(self: Box<Self>) -> Outputs<Array> {
        match *self {
            Self::Done(results) => results,
            Self::Waiting(..) => {
                bug("the piece of an evaluation to be done before its results are read")
            }
        }
    }
}

/// Optimizes a jaxpr and prepares it to run.
pub(crate) fn compile(jaxpr: &Jaxpr) -> Arc<dyn Program> {
    Arc::new(Executable::optimized(jaxpr))
}

impl Program for Executable {
    fn run_in(&self, slots: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        self.run_in(slots, operands)
    }

    fn short(&self) -> Option<&ShortProgram> {
        self.short.as_ref()
    }

    fn needed(&self) -> usize {
        self.needed_from(0)
    }
}

impl Executable {
    /// Optimizes a jaxpr with all compiler passes, and prepares it to run.
    pub(crate) fn optimized(jaxpr: &Jaxpr) -> Self {
        Self::new(&optimize_for_host(jaxpr.clone()))
    }

    /// Prepares a jaxpr to run without compiler passes.
    pub(crate) fn new(jaxpr: &Jaxpr) -> Self {
        let mut used_later = vec![false; jaxpr.variables.len()];
        jaxpr
            .outputs
            .iter()
            .for_each(|output| used_later[output.index()] = true);
        let (scheduled, stages) = ordered(jaxpr);
        let mut steps: Vec<Step> = scheduled
            .into_iter()
            .rev()
            .map(|scheduled| {
                let (work, inputs, outputs) = parts(jaxpr, scheduled);
                let mut inputs: SmallVec<[Use; 4]> = inputs
                    .iter()
                    .rev()
                    .map(|input| Use {
                        slot: input.index(),
                        last: !std::mem::replace(&mut used_later[input.index()], true),
                    })
                    .collect();
                inputs.reverse();
                Step {
                    work,
                    inputs,
                    outputs: outputs.iter().map(|output| output.index()).collect(),
                }
            })
            .collect();
        steps.reverse();
        let infos = jaxpr.variables.iter();
        let mut bytes: Vec<usize> = infos.map(AbstractArray::bytes).collect();
        for (variable, _) in &jaxpr.constants {
            bytes[variable.index()] = 0;
        }
        let mut executable = Self {
            bytes,
            lent: OnceLock::new(),
            slots: jaxpr.variables.len(),
            constants: jaxpr
                .constants
                .iter()
                .map(|(variable, tensor)| (variable.index(), Arc::clone(constant_array(tensor))))
                .collect(),
            inputs: jaxpr.inputs.iter().map(|input| input.index()).collect(),
            steps,
            stages,
            outputs: jaxpr.outputs.iter().map(|output| output.index()).collect(),
            short: short::short(jaxpr),
        };
        executable.renumber();
        executable
    }

    /// Numbers the slots (the memory cells for arrays) in the order of their use. Most variables are never in memory
    /// and get no slot.
    fn renumber(&mut self) {
        let mut numbers: Vec<Option<usize>> = vec![None; self.slots];
        let mut count = 0;
        let mut number = |slot: &mut usize| {
            *slot = *numbers[*slot].get_or_insert_with(|| {
                count += 1;
                count - 1
            });
        };
        self.inputs.iter_mut().for_each(&mut number);
        self.constants.iter_mut().for_each(|(slot, _)| number(slot));
        for step in &mut self.steps {
            step.inputs
                .iter_mut()
                .for_each(|used| number(&mut used.slot));
            step.outputs.iter_mut().for_each(&mut number);
        }
        self.outputs.iter_mut().for_each(&mut number);
        self.slots = count;
        let mut bytes = vec![0; count];
        for (number, before) in numbers.iter().zip(&self.bytes) {
            if let Some(slot) = number {
                bytes[*slot] = *before;
            }
        }
        self.bytes = bytes;
    }

    /// Runs the program on `inputs` and returns its outputs. Reuses the memory of an input if no other handle of the
    /// input exists. A loop may pass the same `values` to each run, so that they are allocated only once.
    pub(crate) fn run_in(&self, values: &mut Slots, inputs: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        self.begin(values, inputs);
        self.run_steps(0..self.steps.len(), values);
        self.end(values)
    }

    /// Puts the constants and inputs into the memory of the program.
    fn begin(&self, values: &mut Slots, inputs: Vec<Arc<Array>>) {
        values.resize(self.slots, None);
        for (slot, array) in &self.constants {
            values[*slot] = Some(Arc::clone(array));
        }
        for (&slot, input) in pairs(&self.inputs, inputs, INPUTS) {
            values[slot] = Some(input);
        }
    }

    /// Runs the steps at the positions `range`, which contains each shared stage as a whole or not at all.
    fn run_steps(&self, range: Range<usize>, values: &mut Slots) {
        let mut start = 0;
        for stage in &self.stages {
            let [first, end] = [start, stage.end].map(|at| at.clamp(range.start, range.end));
            start = stage.end;
            let steps = &self.steps[first..end];
            if stage.shares.is_empty() {
                for step in steps {
                    let operands = step.operands(values);
                    step.keep(step.work.run(operands), values);
                }
            } else if !steps.is_empty() {
                run_side_by_side(steps, &stage.shares, values);
            }
        }
    }

    /// Returns the outputs, and empties the memory of the program.
    fn end(&self, values: &mut Slots) -> Vec<Arc<Array>> {
        let outputs = self
            .outputs
            .iter()
            .map(|&slot| expect_some(values[slot].clone(), OUTPUT))
            .collect();
        values.fill(None);
        outputs
    }
}

/// Runs the steps of a stage. The threads share the pieces of all of them.
fn run_side_by_side(steps: &[Step], shares: &[Share], values: &mut Slots) {
    let operands: Vec<Operands> = steps.iter().map(|step| step.operands(values)).collect();
    let mut evaluations: Vec<Box<dyn Divided + '_>> = pairs(steps, operands, STEPS)
        .map(|(step, operands)| step.work.divided(operands))
        .collect();
    let mut pieces = Vec::new();
    let mut by_step: Vec<_> = evaluations.iter_mut().map(Some).collect();
    for share in shares {
        let evaluation = expect_some(by_step[share.step].take(), STEPS);
        evaluation.pieces(share.pieces, &mut pieces);
    }
    threads::run_parts(pieces, |piece| piece());
    for (step, evaluation) in pairs(steps, evaluations, STEPS) {
        step.keep(evaluation.results(), values);
    }
}

/// A step of a schedule, as [`Lowered`](crate::Lowered) displays it.
pub(crate) struct Planned {
    /// The position of the equation in the jaxpr, if the step runs a single equation. `None` for a fused kernel.
    pub(crate) single: Option<usize>,
    pub(crate) inputs: Vec<Variable>,
    pub(crate) outputs: Vec<Variable>,
    /// The bytes of memory that the step uses only while it runs: a product with which a kernel continues.
    pub(crate) scratch: usize,
}

/// Returns the steps in which a jaxpr runs, in execution order.
pub(crate) fn plan(jaxpr: &Jaxpr) -> Vec<Planned> {
    let planned = |scheduled| {
        let single = match &scheduled {
            Scheduled::One(position) => Some(*position),
            Scheduled::Kernel(_) => None,
        };
        let scratch = match &scheduled {
            Scheduled::One(_) => 0,
            Scheduled::Kernel(fused) => fused.kernel.scratch(),
        };
        let (_, inputs, outputs) = parts(jaxpr, scheduled);
        Planned {
            single,
            inputs,
            outputs,
            scratch,
        }
    };
    let (scheduled, _) = ordered(jaxpr);
    scheduled.into_iter().map(planned).collect()
}

/// Returns the steps of a jaxpr in execution order, and the stages in which threads share them.
fn ordered(jaxpr: &Jaxpr) -> (Vec<Scheduled>, Vec<Stage>) {
    let steps = join_products(jaxpr, schedule(jaxpr));
    arrange(jaxpr, steps, threads::count())
}

fn parts(jaxpr: &Jaxpr, scheduled: Scheduled) -> (Work, Vec<Variable>, Vec<Variable>) {
    match scheduled {
        Scheduled::One(position) => {
            let equation = &jaxpr.equations[position];
            let primitive = Arc::clone(&equation.primitive);
            let work = if primitive.axis_names().is_empty() {
                Work::One(primitive)
            } else {
                Work::Collective(primitive, equation.line)
            };
            (work, equation.inputs.to_vec(), equation.outputs.to_vec())
        }
        Scheduled::Kernel(fused) => {
            let FusedKernel {
                kernel,
                inputs,
                outputs,
            } = *fused;
            (Work::Kernel(Box::new(kernel)), inputs, outputs)
        }
    }
}
