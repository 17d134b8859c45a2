//! The steps in which a jaxpr runs, in execution order.

use std::sync::Arc;

use pytree_kernels::base::threads;

use super::kernel::FusedKernel;
use super::planner::Scheduled;
use super::products::join_products;
use super::schedule::schedule;
use super::stages::{Stage, arrange};
use super::step::Work;
use crate::tensor::jaxpr::{Jaxpr, Variable};

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
pub(super) fn ordered(jaxpr: &Jaxpr) -> (Vec<Scheduled>, Vec<Stage>) {
    let steps = join_products(jaxpr, schedule(jaxpr));
    arrange(jaxpr, steps, threads::count())
}

/// Returns what a step computes, with its inputs and outputs.
pub(super) fn parts(jaxpr: &Jaxpr, scheduled: Scheduled) -> (Work, Vec<Variable>, Vec<Variable>) {
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
