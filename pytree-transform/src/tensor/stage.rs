//! Records functions of tensors as jaxprs.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use pytree_base::bug::{expect_some, pairs};
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::error::or_panic;
use crate::tensor::device::on_host;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::{Builder, Jaxpr};
use crate::tensor::trace::{Interpreter, Payload, Recorder, Trace, standing_in, suspended};

/// Records the function `run` of tensors as a jaxpr. Also returns the traced tensors that `run` captured from lower
/// trace levels, and the extra result of `run`. The captured tensors are the last inputs of the jaxpr.
pub(crate) fn stage<R>(
    recorder: Recorder,
    inputs: &[AbstractArray],
    run: impl FnOnce(Vec<Tensor>) -> (Vec<Tensor>, R),
) -> (Jaxpr, Vec<Tensor>, R) {
    let ((jaxpr, captured), rest) = called_once(run, |run| stage_results(recorder, inputs, run));
    (jaxpr, captured, rest)
}

/// Calls `record` with a function of tensors, which `record` calls once. Returns the result of `record`, and the extra result of the
/// function. `record` receives a function of a fixed type, so the code that it calls is compiled only once.
pub(crate) fn called_once<R, T>(
    run: impl FnOnce(Vec<Tensor>) -> (Vec<Tensor>, R),
    record: impl FnOnce(&mut dyn FnMut(Vec<Tensor>) -> Vec<Tensor>) -> T,
) -> (T, R) {
    const ONE_CALL: &str = "one call of the recorded function";
    let (mut run, mut rest) = (Some(run), None);
    let recorded = record(&mut |tensors| {
        let run = expect_some(run.take(), ONE_CALL);
        let (results, other) = run(tensors);
        rest = Some(other);
        results
    });
    (recorded, expect_some(rest, ONE_CALL))
}

/// Records a function like [`stage`], without its extra result.
fn stage_results(
    recorder: Recorder,
    inputs: &[AbstractArray],
    run: &mut dyn FnMut(Vec<Tensor>) -> Vec<Tensor>,
) -> (Jaxpr, Vec<Tensor>) {
    let builder = Rc::new(RefCell::new(Builder::default()));
    let trace = Trace::begin(Interpreter::Stage(Rc::clone(&builder), recorder));
    let unconditional = suspended();
    let tensors = inputs
        .iter()
        .map(|info| {
            let variable = builder.borrow_mut().input(info.clone());
            trace.tensor(info.clone(), Payload::Stage(variable, recorder))
        })
        .collect();
    // Run operations on constants on the host, where a compiler can fold them.
    let host = on_host();
    let results = run(tensors);
    drop(host);
    drop(unconditional);
    let results = standing_in(results);
    let outputs = results
        .iter()
        .map(|result| {
            let variable = or_panic(trace.variable(result));
            variable.unwrap_or_else(|| builder.borrow_mut().constant(result))
        })
        .collect();
    drop(results);
    drop(trace);
    builder.take().finish(outputs)
}

/// Gives all recorded functions the same inputs: the `given` inputs, which are already equal, followed by all traced
/// tensors that a function captured.
pub(crate) fn with_all_captured(
    given: usize,
    recorded: Vec<(Jaxpr, Vec<Tensor>)>,
) -> (Vec<Jaxpr>, Vec<Tensor>) {
    let mut seen = HashSet::new();
    let captured = recorded.iter().flat_map(|(_, captured)| captured);
    let all: Vec<Tensor> = captured
        .filter(|tensor| seen.insert(tensor.handle()))
        .cloned()
        .collect();
    let jaxprs = recorded
        .into_iter()
        .map(|(mut jaxpr, captured)| {
            let own = jaxpr.inputs.split_off(given);
            let mut inputs = HashMap::new();
            for (tensor, input) in pairs(&captured, own, "an input for each captured tensor") {
                inputs.entry(tensor.handle()).or_insert(input);
            }
            for tensor in &all {
                let known = inputs.get(&tensor.handle()).copied();
                let input = known.unwrap_or_else(|| jaxpr.unused_input(tensor.info().clone()));
                jaxpr.inputs.push(input);
            }
            jaxpr
        })
        .collect();
    (jaxprs, all)
}
