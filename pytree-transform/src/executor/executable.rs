//! Programs that are ready to run: the steps, and the slots of memory of their values.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pytree_base::bug::{expect_some, pairs};
use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use super::arena::{Programs, may_run};
use super::plan::{ordered, parts};
use super::stages::Stage;
use super::step::{Step, Use, run_side_by_side};
use crate::passes::optimize_for_host;
use crate::primitives::body::program::{Program, Slots};
use crate::tensor::jaxpr::{INPUTS, Jaxpr, OUTPUT, constant_array};
use crate::tensor::primitive::Primitive;

/// A scheduled jaxpr that is ready to run.
pub(crate) struct Executable {
    pub(super) slots: usize,
    pub(super) constants: Vec<(usize, Arc<Array>)>,
    pub(super) inputs: Vec<usize>,
    pub(super) steps: Vec<Step>,
    pub(super) stages: Vec<Stage>,
    pub(super) outputs: Vec<usize>,
    /// The jaxpr, if it has so few equations that it may be small.
    pub(super) jaxpr: Option<Jaxpr>,
    /// The programs that run the jaxpr if it is small, and loops over it.
    pub(super) small: Programs,
    loops: Programs,
    /// The bytes of the value in each slot. Those of a constant count as none, because its memory stays.
    pub(super) bytes: Vec<usize>,
    /// How the program runs on inputs that the caller lends. Computed when they are first lent.
    pub(super) lent: OnceLock<Lent>,
}

/// Optimizes a jaxpr and prepares it to run.
pub(crate) fn compile(jaxpr: &Jaxpr) -> Arc<dyn Program> {
    Arc::new(Executable::optimized(jaxpr))
}

impl Program for Executable {
    fn run_in(&self, slots: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        self.run_in(slots, operands)
    }

    fn evaluate_small(
        &self,
        primitive: &dyn Primitive,
        operands: Vec<Arc<Array>>,
    ) -> Result<Vec<Arc<Array>>, Vec<Arc<Array>>> {
        self.loops.evaluate(primitive, operands)
    }

    fn needed(&self) -> usize {
        self.needed_from(0)
    }
}

impl Executable {
    /// Optimizes a jaxpr with all compiler passes, and prepares it to run.
    pub(crate) fn optimized(jaxpr: &Jaxpr) -> Self {
        pytree_base::span!(DEBUG, "compile", equations = jaxpr.equations.len());
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
            jaxpr: may_run(jaxpr).then(|| jaxpr.clone()),
            small: Programs::default(),
            loops: Programs::default(),
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
        match self.run_small(inputs) {
            Ok(outputs) => outputs,
            Err(inputs) => self.run_scheduled(values, inputs),
        }
    }

    /// Runs the steps of the schedule on `inputs`, as [`run_in`](Self::run_in) does with a program that is not small.
    pub(super) fn run_scheduled(
        &self,
        values: &mut Slots,
        inputs: Vec<Arc<Array>>,
    ) -> Vec<Arc<Array>> {
        self.begin(values, inputs);
        self.run_steps(0..self.steps.len(), values);
        self.end(values)
    }

    /// Runs the program without the overhead of arrays. Returns the inputs if it is not small.
    pub(super) fn run_small(
        &self,
        inputs: Vec<Arc<Array>>,
    ) -> Result<Vec<Arc<Array>>, Vec<Arc<Array>>> {
        match &self.jaxpr {
            Some(jaxpr) => self.small.run(jaxpr, inputs),
            None => Err(inputs),
        }
    }

    /// Puts the constants and inputs into the memory of the program.
    pub(super) fn begin(&self, values: &mut Slots, inputs: Vec<Arc<Array>>) {
        values.resize(self.slots, None);
        for (slot, array) in &self.constants {
            values[*slot] = Some(Arc::clone(array));
        }
        for (&slot, input) in pairs(&self.inputs, inputs, INPUTS) {
            values[slot] = Some(input);
        }
    }

    /// Runs the steps at the positions `range`, which contains each shared stage as a whole or not at all.
    pub(super) fn run_steps(&self, range: Range<usize>, values: &mut Slots) {
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
    pub(super) fn end(&self, values: &mut Slots) -> Vec<Arc<Array>> {
        let outputs = self
            .outputs
            .iter()
            .map(|&slot| expect_some(values[slot].clone(), OUTPUT))
            .collect();
        values.fill(None);
        outputs
    }
}

/// How a program runs on inputs that the caller lends.
pub(super) struct Lent {
    /// The position of the step before which the caller releases its handles.
    pub(super) release: usize,
    /// The bytes that this step and the later ones need.
    pub(super) needed: usize,
    /// For each input, whether a step may overwrite it.
    pub(super) overwritten: Vec<bool>,
}
