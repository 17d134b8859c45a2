//! Removes the results of scans that nothing reads, with what only they need in each iteration: stacked outputs, and carried values
//! such as the counter of a loop that does not use it.

use std::sync::Arc;

use pytree_base::bug::expect_next;

use crate::primitives::control::scan::Scan;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// Removes the equations that nothing needs, and from each scan the results that nothing reads.
pub(super) fn without_unused_results(jaxpr: Jaxpr) -> Jaxpr {
    let mut jaxpr = jaxpr.without_dead_code();
    let mut is_read = vec![false; jaxpr.variables.len()];
    let inputs = jaxpr.equations.iter().flat_map(|it| &it.inputs);
    for variable in inputs.chain(&jaxpr.outputs) {
        is_read[variable.index()] = true;
    }
    for equation in &mut jaxpr.equations {
        let is_read: Vec<bool> = equation
            .outputs
            .iter()
            .map(|output| is_read[output.index()])
            .collect();
        if is_read.contains(&true) && is_read.contains(&false) {
            shorten(equation, &is_read);
        }
    }
    jaxpr
}

/// Removes from a scan the results that neither something reads nor another iteration needs.
fn shorten(equation: &mut Equation, is_read: &[bool]) {
    let Some(scan) = equation.parameters::<Scan>() else {
        return;
    };
    let body = &scan.body.jaxpr;
    if scan.body.has_effect {
        return;
    }
    let needed = needed(scan, body, is_read);
    let is_kept = |variable: &Variable| needed[variable.index()];
    let carried = &body.inputs[scan.constants..scan.constants + scan.carry];
    let (keeps_carry, keeps_output): (Vec<bool>, Vec<bool>) = (
        carried.iter().map(is_kept).collect(),
        is_read[scan.carry..].to_vec(),
    );
    let keeps_result = [&keeps_carry[..], &keeps_output].concat();
    let keeps_input: Vec<bool> = body.inputs.iter().map(is_kept).collect();
    if !keeps_result.contains(&false) {
        return;
    }
    let mut shorter = body.clone();
    let (mut keeps, mut keeps_next) = (each(&keeps_input), each(&keeps_result));
    shorter.inputs.retain(|_| keeps());
    shorter.outputs.retain(|_| keeps_next());
    let count = |flags: &[bool]| flags.iter().filter(|&&flag| flag).count();
    let scan = Scan {
        body: scan.body.derived(shorter.without_dead_code()),
        constants: count(&keeps_input[..scan.constants]),
        carry: count(&keeps_carry),
        ..*scan
    };
    let (mut keeps, mut keeps_next) = (each(&keeps_input), each(&keeps_result));
    equation.inputs.retain(|_| keeps());
    equation.outputs.retain(|_| keeps_next());
    equation.primitive = Arc::new(scan);
}

/// Returns which variables of a body are needed for the results that are read. A carried value that is needed in an iteration is
/// needed from the one before.
fn needed(scan: &Scan, body: &Jaxpr, is_read: &[bool]) -> Vec<bool> {
    let mut needed = vec![false; body.variables.len()];
    let mut computed_by = vec![None; body.variables.len()];
    for equation in &body.equations {
        for output in &equation.outputs {
            computed_by[output.index()] = Some(equation);
        }
    }
    let mut next = vec![None; body.variables.len()];
    for (input, &output) in body.inputs[scan.constants..]
        .iter()
        .zip(&body.outputs)
        .take(scan.carry)
    {
        next[input.index()] = Some(output);
    }
    let mut open: Vec<Variable> = Vec::new();
    for ((&output, &is_read), position) in body.outputs.iter().zip(is_read).zip(0..) {
        if is_read {
            open.push(output);
            if position < scan.carry {
                open.push(body.inputs[scan.constants + position]);
            }
        }
    }
    while let Some(variable) = open.pop() {
        if !std::mem::replace(&mut needed[variable.index()], true) {
            open.extend(next[variable.index()]);
            open.extend(
                computed_by[variable.index()]
                    .iter()
                    .flat_map(|it| &it.inputs),
            );
        }
    }
    needed
}

/// Returns a function that returns the flags one after the other.
fn each(flags: &[bool]) -> impl FnMut() -> bool {
    let mut flags = flags.iter().copied();
    move || expect_next(&mut flags, "a flag for each variable")
}
