//! Checks the results of custom derivative rules, and records the functions that have such rules.

use std::cell::Cell;
use std::panic::Location;
use std::sync::Arc;

use pytree_core::{TreeDef, graph};
use pytree_kernels::base::dtype::AbstractArray;

use crate::executor::compile;
use crate::primitives::body::{Body, Derivative, GivenRule, Rule};
use crate::primitives::call::call;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Payload, Recorder, at_line, is_transforming, standing_in};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::control::mismatch::{differences, fix};
use crate::transformations::function::{call_reading, or_no_leaves};

/// The structure of a value, and the dtypes and shapes of its leaves.
pub(crate) struct Form {
    pub(crate) treedef: TreeDef,
    pub(crate) infos: Vec<AbstractArray>,
}

impl Form {
    pub(crate) fn of(treedef: TreeDef, leaves: &[Tensor]) -> Self {
        let infos = leaves.iter().map(|leaf| leaf.info().clone()).collect();
        Self { treedef, infos }
    }

    pub(crate) fn is_float(&self) -> Vec<bool> {
        self.infos
            .iter()
            .map(|info| info.dtype.is_float())
            .collect()
    }

    /// Returns a message that begins with `what` and lists all differences between this form and `other`, or `None` if
    /// the forms are equal.
    pub(crate) fn mistake(&self, what: &str, other: &Self) -> Option<String> {
        let expected = (&self.treedef, self.infos.as_slice());
        let found = differences(expected, (&other.treedef, &other.infos));
        (!found.is_empty()).then(|| format!("{what}: {}; {}", found.join("; "), fix(&found)))
    }
}

/// A recorded function, the tensors it captured, and the forms of its argument and of its result.
pub(crate) struct Recorded {
    pub(crate) argument: Form,
    pub(crate) jaxpr: Jaxpr,
    pub(crate) captured: Vec<Tensor>,
    pub(crate) result: Form,
}

/// Calls a function that has a rule. While functions are transformed, records the function and calls it with the rule. `with_rule`
/// returns the recorded function with its rule, and appends the tensors that both captured to the operands.
///
/// # Errors
/// Returns the error of the function.
pub(crate) fn call_with_rule<A: Traceable, R: Traceable, E>(
    recorder: Recorder,
    line: &'static Location<'static>,
    function: &impl Fn(&A) -> Result<R, E>,
    argument: &A,
    with_rule: impl FnOnce(&mut Vec<Tensor>, Recorded) -> (Jaxpr, Rule),
) -> Result<R, E> {
    if !is_transforming() {
        return nested(recorder, line, || function(argument));
    }
    let (mut operands, treedef) = graph::flatten::<Tensor, A>(argument);
    let form = Form::of(treedef, &operands);
    let recorded = nested(recorder, line, || record(recorder, form, function))?;
    let (arguments, treedef) = (operands.len(), recorded.result.treedef.clone());
    let (jaxpr, rule) = with_rule(&mut operands, recorded);
    let rule = GivenRule {
        rule: Arc::new(rule),
        arguments,
        forward: recorder == Recorder::CustomJvp,
    };
    let body = Body::with_derivative(recorder, jaxpr, Derivative::Given(rule), compile);
    let results = at_line(line, || call(&body, &operands));
    Ok(rebuild(&treedef, results))
}

/// Records a function of a pytree.
///
/// # Errors
/// Returns the error of the function.
fn record<A: Traceable, R: Traceable, E>(
    recorder: Recorder,
    argument: Form,
    function: impl FnOnce(&A) -> Result<R, E>,
) -> Result<Recorded, E> {
    let (jaxpr, captured, result) = stage(recorder, &argument.infos, |tensors| {
        let result = call_reading(
            recorder.name(),
            &argument.treedef,
            tensors,
            |argument: A| function(&argument),
        );
        or_no_leaves(result.map(|result| {
            let (leaves, treedef) = graph::flatten::<Tensor, R>(&result);
            let form = Form::of(treedef, &leaves);
            (leaves, form)
        }))
    });
    Ok(Recorded {
        argument,
        jaxpr,
        captured,
        result: result?,
    })
}

/// Flattens the value that a custom rule returns. If a leaf is a tensor that the function captured, replaces the leaf
/// by its stand-in: the operand that passes this tensor to the recorded call.
pub(crate) fn flatten<R: Traceable>(result: &R) -> (Vec<Tensor>, TreeDef) {
    let (leaves, treedef) = graph::flatten::<Tensor, R>(result);
    (standing_in(leaves), treedef)
}

/// Returns whether a tensor is being differentiated. If an argument of a function with a custom rule is being
/// differentiated, the rule must run immediately.
pub(crate) fn is_differentiated(tensor: &Tensor) -> bool {
    match tensor.tracer().map(|tracer| &tracer.payload) {
        Some(Payload::Jvp { primal, tangent }) => tangent.is_some() || is_differentiated(primal),
        Some(Payload::Batch { value, .. }) => is_differentiated(value),
        Some(Payload::Tape(_) | Payload::Stage(..)) | None => false,
    }
}

/// Panics if a custom rule captured a traced tensor that its function did not capture. Such a tensor is not an operand
/// of the recorded call, and the rule runs later than the function.
pub(crate) fn refuse_captured(recorder: Recorder, line: &Location<'_>, captured: &[Tensor]) {
    let captured: Vec<String> = captured.iter().map(|it| it.info().to_string()).collect();
    assert!(
        captured.is_empty(),
        "cannot apply the rule of the {recorder} at {line}: the rule captured a traced tensor ({}) that the function does not capture; pass the tensor as a part of the argument",
        captured.join(", ")
    );
}

/// The maximum number of nested calls of functions with custom rules. The default stack of a thread, 2 MiB, is large
/// enough for this number.
const DEEPEST: usize = 48;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Runs `function`, which is a user's function with a custom rule, or the rule itself.
///
/// # Panics
/// Panics if more than [`DEEPEST`] such calls are nested.
pub(crate) fn nested<R>(
    recorder: Recorder,
    line: &Location<'_>,
    function: impl FnOnce() -> R,
) -> R {
    struct Guard(usize);
    impl Drop for Guard {
        fn drop(&mut self) {
            DEPTH.set(self.0);
        }
    }
    let depth = Guard(DEPTH.get());
    assert!(
        depth.0 < DEEPEST,
        "cannot call the {recorder} at {line}: {DEEPEST} calls of functions with rules are nested, so the function seems to call itself endlessly; a rule may call its function, but a function must not call itself, and a rule must not take the derivative that it defines"
    );
    DEPTH.set(depth.0 + 1);
    function()
}
