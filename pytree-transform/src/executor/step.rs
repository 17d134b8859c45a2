//! The steps of a program, and stages whose steps run side by side.

use std::panic::Location;
use std::sync::Arc;

use pytree_base::bug::{bug, expect_some, pairs};
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::divided::Divided;
use pytree_kernels::base::threads::{self, Piece};
use pytree_kernels::fused::Kernel;
use smallvec::SmallVec;

use super::stages::Share;
use crate::primitives::body::program::Slots;
use crate::primitives::dot::product_of;
use crate::tensor::evaluation::evaluate;
use crate::tensor::jaxpr::{OPERAND, RESULTS};
use crate::tensor::primitive::{Outputs, Primitive};
use crate::tensor::trace::at_line;

/// The elements that belong to the steps of a stage, as text for the panic message of a library bug.
const STEPS: &str = "one of them for each step of a stage";

/// A step of a program.
pub(super) struct Step {
    pub(super) work: Work,
    pub(super) inputs: SmallVec<[Use; 4]>,
    pub(super) outputs: SmallVec<[usize; 1]>,
}

/// What a step computes.
pub(super) enum Work {
    One(Arc<dyn Primitive>),
    /// A collective, with the line that recorded it. Processes compare their lines.
    Collective(Arc<dyn Primitive>, &'static Location<'static>),
    Kernel(Box<Kernel>),
}

/// A use of a value by a step. The step with the last use may write its result over the value.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub(super) slot: usize,
    pub(super) last: bool,
}

impl Step {
    /// Takes the operands of the step out of the memory of a program.
    pub(super) fn operands(&self, values: &mut Slots) -> Operands {
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
    pub(super) fn keep(&self, results: Outputs<Array>, values: &mut Slots) {
        for (&slot, result) in pairs(&self.outputs, results, RESULTS) {
            values[slot] = Some(Arc::new(result));
        }
    }
}

impl Work {
    pub(super) fn run(&self, operands: Operands) -> Outputs<Array> {
        match self {
            Self::One(primitive) => evaluate(&**primitive, operands),
            Self::Collective(primitive, line) => at_line(line, || evaluate(&**primitive, operands)),
            Self::Kernel(kernel) => kernel.run(operands),
        }
    }

    /// Returns whether the evaluation may fail although it has enough memory.
    pub(super) fn can_fail(&self) -> bool {
        match self {
            Self::One(primitive) => primitive.can_fail(),
            // Another process may end.
            Self::Collective(..) => true,
            Self::Kernel(_) => false,
        }
    }

    /// Prepares the evaluation for several threads.
    pub(super) fn divided(&self, operands: Operands) -> Box<dyn Divided + '_> {
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

/// Runs the steps of a stage. The threads share the pieces of all of them.
pub(super) fn run_side_by_side(steps: &[Step], shares: &[Share], values: &mut Slots) {
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
