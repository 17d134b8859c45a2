//! Where an operation goes: it is evaluated, or interpreted by the innermost level among its operands.

use std::cell::RefCell;
use std::panic::Location;

use smallvec::SmallVec;

use crate::base::array;
use crate::base::dtype::AbstractArray;
use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::checks;
use crate::tensor::jaxpr::{Builder, Variable};
use crate::tensor::primitive::{Operands, Outputs, Primitive};
use crate::tensor::trace::batch_axes::level_of;
use crate::tensor::trace::lines::{LineGuard, current_line};
use crate::tensor::trace::{
    INNERMOST, Interpreter, LEVELS, Level, Payload, Trace, check_alive, innermost_stage,
};

/// Applies a primitive to tensors of whatever levels. All operations go through here.
#[track_caller]
pub(crate) fn bind(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
) -> Result<Outputs<Tensor>, TensorError> {
    let line = current_line();
    let infos: SmallVec<[&AbstractArray; 4]> =
        operands.iter().map(|operand| operand.info()).collect();
    let results = primitive.abstract_evaluation(&infos)?;
    let innermost = operands
        .iter()
        .filter_map(|operand| operand.tracer())
        .max_by_key(|tracer| tracer.level);
    let level = innermost.map(|tracer| tracer.level);
    let names = primitive.axis_names();
    let level = if !names.is_empty() {
        level.max(level_of(names))
    } else if operands.is_empty() || primitive.has_effect() {
        level.max(innermost_stage())
    } else {
        level
    };
    for operand in operands {
        if let Some(tracer) = operand.tracer() {
            check_alive(tracer, primitive.name())?;
        }
    }
    for result in &results {
        if !array::is_surely_granted(result) {
            check_memory(primitive.name(), result, &infos, level)?;
        }
    }
    match level {
        None => evaluate(primitive, operands, line),
        Some(level) => interpret(level, primitive, operands, &results, line),
    }
}

/// Refuses a result that nothing can address, and one that is computed now if the system does not grant its memory.
/// Where an operand is as large, the result may be written over it.
#[cold]
fn check_memory(
    operation: &'static str,
    result: &AbstractArray,
    operands: &[&AbstractArray],
    level: Option<usize>,
) -> Result<(), TensorError> {
    let bytes = |info: &AbstractArray| info.spanned_bytes();
    let granted = || {
        level.is_some()
            || operands
                .iter()
                .any(|operand| bytes(operand) >= bytes(result))
            || array::is_granted(result)
    };
    if result.fits_memory() && granted() {
        return Ok(());
    }
    Err(TensorError::too_large(operation, result))
}

/// Refuses a tensor that nothing can address, and one that is made now if the system does not grant its memory.
pub(crate) fn check_creation(
    operation: &'static str,
    result: &AbstractArray,
) -> Result<(), TensorError> {
    if array::is_surely_granted(result) {
        return Ok(());
    }
    check_memory(operation, result, &[], innermost_stage())
}

/// The single result of a primitive applied to tensors.
#[track_caller]
pub(crate) fn bind_one(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
) -> Result<Tensor, TensorError> {
    bind(primitive, operands).map(first)
}

/// The first of some results.
#[track_caller]
fn first<T>(results: Outputs<T>) -> T {
    match results.into_iter().next() {
        Some(result) => result,
        None => panic!("a primitive gave no result; this is a bug of pytree"),
    }
}

fn evaluate(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    line: &'static Location<'static>,
) -> Result<Outputs<Tensor>, TensorError> {
    let operands: Operands = operands
        .iter()
        .filter_map(|operand| operand.array().cloned())
        .collect();
    let results = if checks::active() {
        checks::evaluate(primitive, operands, line, None)?
    } else {
        primitive.evaluate(operands)
    };
    Ok(results.into_iter().map(Tensor::from_array).collect())
}

fn interpret(
    level: usize,
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    results: &Outputs<AbstractArray>,
    line: &'static Location<'static>,
) -> Result<Outputs<Tensor>, TensorError> {
    let found = LEVELS.with_borrow(|levels| levels.get(level).cloned());
    let Some(Level {
        id,
        interpreter,
        below,
    }) = found
    else {
        return evaluate(primitive, operands, line);
    };
    // The level stays on the stack; this handle only makes and reads its tensors.
    let trace = std::mem::ManuallyDrop::new(Trace {
        level,
        id,
        _level: None,
    });
    let _line = LineGuard::set(line);
    let _below = InnermostGuard(INNERMOST.replace(below));
    match interpreter {
        Interpreter::Jvp => {
            let (primals, tangents): (Vec<_>, Vec<_>) = operands
                .iter()
                .map(|operand| trace.undual(operand))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .unzip();
            let (results, tangents) = primitive.jvp(&primals, &tangents);
            Ok(results
                .into_iter()
                .zip(tangents)
                .map(|(result, tangent)| trace.dual(result, tangent))
                .collect())
        }
        Interpreter::Batch(mut batch) => {
            let (values, axes): (Vec<_>, Vec<_>) = operands
                .iter()
                .map(|operand| trace.unbatched(operand))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .unzip();
            // A name that the primitive does not work over is nothing to its rule.
            batch.name = batch
                .name
                .filter(|name| primitive.axis_names().contains(name));
            let (results, axes) = primitive.batch(&values, &axes, &batch);
            Ok(results
                .into_iter()
                .zip(axes)
                .map(|(result, axis)| match axis {
                    Some(axis) => trace.batched(result, axis),
                    None => result,
                })
                .collect())
        }
        Interpreter::Tape(builder) => Ok(record(
            &trace,
            &builder,
            primitive,
            operands,
            results,
            line,
            Payload::Tape,
        )),
        Interpreter::Stage(builder, _) => Ok(record(
            &trace,
            &builder,
            primitive,
            operands,
            results,
            line,
            Payload::Stage,
        )),
    }
}

/// Adds an equation to the jaxpr that a level records.
fn record(
    trace: &Trace,
    builder: &RefCell<Builder>,
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    results: &Outputs<AbstractArray>,
    line: &'static Location<'static>,
    payload: fn(Variable) -> Payload,
) -> Outputs<Tensor> {
    let mut builder = builder.borrow_mut();
    let inputs = operands
        .iter()
        .map(|operand| match operand.tracer() {
            Some(tracer) if tracer.id == trace.id => match tracer.payload {
                Payload::Tape(variable) | Payload::Stage(variable) => variable,
                Payload::Jvp { .. } | Payload::Batch { .. } => builder.constant(operand),
            },
            _ => builder.constant(operand),
        })
        .collect();
    let outputs = builder.equation(primitive.to_shared(), inputs, results, line);
    outputs
        .into_iter()
        .zip(results)
        .map(|(variable, info)| trace.tensor(info.clone(), payload(variable)))
        .collect()
}

/// While it lives, the levels from that of a rule on are not there for what the rule creates: its results are
/// of a level below, and may outlive them.
struct InnermostGuard(Option<usize>);

impl Drop for InnermostGuard {
    fn drop(&mut self) {
        INNERMOST.set(self.0);
    }
}
