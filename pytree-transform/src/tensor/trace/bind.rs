//! The dispatch of operations. If no operand is traced, an operation is evaluated on the host or on the device of its
//! operands. Otherwise, the innermost trace level of its operands interprets the operation.
//!
//! [`bind`] infers shapes before a trace level sees the operation. So a shape error has the user's line and the shapes that the user
//! sees. It also refuses a result whose size overflows, so kernels multiply lengths and strides without a check.
//!
//! Tensors that a rule creates belong to a level below its own: its own level and all levels above are hidden while it runs.
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

use pytree_base::bug::{bug, expect_some, pairs};
use pytree_core::level::with_levels;
use pytree_kernels::base::array::{self, Operands};
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::pattern::{Pattern, common_shape};
use smallvec::SmallVec;

use crate::base::error::{TensorError, or_panic, or_too_large};
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::{Builder, Equation, Variable};
use crate::tensor::primitive::{BatchAxis, Outputs, Primitive};
use crate::tensor::trace::batch_axes::{check_axes, level_of};
use crate::tensor::trace::conditions;
use crate::tensor::trace::interpreter::{Content, Interpreter};
use crate::tensor::trace::levels::{
    INNERMOST, check_alive, innermost_stage, innermost_with_rule, recording_level,
};
use crate::tensor::trace::lines::{LineGuard, at_line, current_line};
use crate::tensor::trace::stand_ins::{self, has_stand_in, standing_in};
use crate::tensor::trace::tracer::{LevelHandle, Payload};
use crate::tensor::{checks, device, evaluation};

/// Applies a primitive to tensors, which may belong to any trace levels. All operations call this function.
#[track_caller]
pub(crate) fn bind(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
) -> Result<Outputs<Tensor>, TensorError> {
    let line = current_line();
    if let Some(condition) = conditions::current().filter(|_| primitive.may_call_host()) {
        let _suspended = conditions::suspended();
        return at_line(line, || {
            primitive.bind_under(condition.0.as_ref(), operands)
        });
    }
    let infos: SmallVec<[&AbstractArray; 4]> =
        operands.iter().map(|operand| operand.info()).collect();
    let names = primitive.axis_names();
    if !names.is_empty() {
        check_axes(primitive, &infos)?;
    }
    let results = primitive.abstract_evaluation(&infos)?;
    let innermost = operands
        .iter()
        .filter_map(|operand| operand.tracer())
        .max_by_key(|tracer| tracer.place.level);
    if innermost.is_some() && stand_ins::are_used() && operands.iter().any(|it| has_stand_in(it)) {
        let operands = standing_in(operands.iter().copied().cloned().collect());
        let operands: SmallVec<[&Tensor; 4]> = operands.iter().collect();
        return at_line(line, || bind(primitive, &operands));
    }
    let level = innermost.map(|tracer| tracer.place.level);
    let level = if !names.is_empty() {
        level.max(level_of(names))
    } else if operands.is_empty() || primitive.has_effect() {
        level.max(innermost_stage())
    } else if level.is_some() {
        level.max(innermost_with_rule()).max(recording_level())
    } else {
        recording_level()
    };
    if innermost.is_some() {
        for tracer in operands.iter().filter_map(|operand| operand.tracer()) {
            check_alive(tracer, primitive.name())?;
        }
    }
    for result in &results {
        if !array::is_surely_granted(result) {
            let is_elsewhere = level.is_some() || device::uses_device(primitive, operands);
            check_memory(primitive.name(), result, &infos, is_elsewhere)?;
        }
    }
    match level {
        None if device::uses_device(primitive, operands) => {
            device::evaluate(primitive, operands, &results, line)
        }
        None => evaluate(primitive, operands, line),
        Some(level) => or_too_large(
            || primitive.name(),
            || interpret(level, primitive, operands, &results, line),
        ),
    }
}

/// Applies an elementwise primitive to operands that are broadcast to one shape. The kernel repeats their elements, so no array holds
/// the repetitions; nor do `grad` and `jvp` store those of numbers. Returns `None` if the kernel cannot repeat an operand, and if the
/// operation is recorded for compilation, mapped by `vmap`, or runs on a device.
#[track_caller]
pub(crate) fn bind_repeating(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
) -> Result<Option<Tensor>, TensorError> {
    let Some(shape) = common_shape(operands.iter().map(|operand| operand.shape())) else {
        return Ok(None);
    };
    let tracer = operands
        .iter()
        .filter_map(|operand| operand.tracer())
        .max_by_key(|tracer| tracer.place.level);
    let level = tracer.map(|tracer| tracer.place.level);
    let is_repeated = |operand: &Tensor| match level {
        None => Pattern::of_operand(operand.shape(), &shape).is_some(),
        Some(_) => operand.len() == 1 && operand.array().is_some(),
    };
    let is_whole = |operand: &Tensor| operand.shape() == &shape[..];
    let can_repeat = operands
        .iter()
        .all(|operand| is_whole(operand) || is_repeated(operand));
    if !can_repeat
        || checks::active()
        || recording_level().is_some()
        || device::uses_device(primitive, operands)
        || level.is_some_and(|level| {
            // A device repeats a number once, for the rules of all its uses.
            operands.iter().any(|it| it.placed_on().is_some()) || !repeats_numbers(level, primitive)
        })
    {
        return Ok(None);
    }
    if let Some(tracer) = tracer {
        check_alive(tracer, primitive.name())?;
    }
    // The operands as if they were repeated: beside a number, there is usually a tensor of its dtype.
    let repeated = |operand: &&Tensor| {
        let mut others = operands.iter().filter(|other| is_whole(other));
        let other = others.find(|other| other.dtype() == operand.dtype())?;
        Some(other.info())
    };
    let owned: SmallVec<[AbstractArray; 3]>;
    let mut infos: SmallVec<[&AbstractArray; 3]> = operands.iter().filter_map(repeated).collect();
    if infos.len() < operands.len() {
        let repeated = |operand: &&Tensor| AbstractArray::new(operand.dtype(), &shape);
        owned = operands.iter().map(repeated).collect();
        infos = owned.iter().collect();
    }
    let results = primitive.abstract_evaluation(&infos)?;
    for result in &results {
        if !array::is_surely_granted(result) {
            check_memory(primitive.name(), result, &infos, level.is_some())?;
        }
    }
    let line = current_line();
    let results = match level {
        None => evaluate(primitive, operands, line),
        Some(level) => or_too_large(
            || primitive.name(),
            || interpret(level, primitive, operands, &results, line),
        ),
    };
    results.map(|results| Some(first(results)))
}

/// Evaluates a primitive on tensors by value. The result has the dtype and shape of the first operand, and may overwrite an operand that
/// nothing else holds. Returns the operands if an operand is traced or on a device, or if they do not fit.
pub(crate) fn overwriting<const N: usize>(
    primitive: &dyn Primitive,
    operands: [Tensor; N],
) -> Result<Tensor, [Tensor; N]> {
    let info = operands[0].info();
    let is_repeated = |operand: &Tensor| {
        let pattern = Pattern::of_operand(operand.shape(), &info.shape);
        operand.array().is_some() && operand.dtype() == info.dtype && pattern.is_some()
    };
    if checks::active()
        || recording_level().is_some()
        || device::uses_device(primitive, &operands.each_ref())
        || !operands.iter().all(is_repeated)
        || primitive.abstract_evaluation(&[info; N]).is_err()
    {
        return Err(operands);
    }
    let arrays = operands.into_iter().filter_map(Tensor::into_array);
    let results = evaluation::evaluate(primitive, arrays.collect());
    Ok(Tensor::from_array(first(results)))
}

/// Returns whether the rules of a trace level accept numbers in place of their repetitions.
fn repeats_numbers(level: usize, primitive: &dyn Primitive) -> bool {
    let is_recorded =
        innermost_stage().is_some() || innermost_with_rule().is_some() || stand_ins::are_used();
    let accepts =
        |interpreter: &Interpreter| matches!(interpreter, Interpreter::Jvp | Interpreter::Tape(_));
    !is_recorded && accepts(&level_at(level, primitive).1.interpreter)
}

/// Returns an error if a result is too large for memory. A result is too large if the address space cannot hold it. A
/// result that is computed immediately on the host is also too large if the system does not grant its memory. If
/// an operand is at least as large as the result, the result may overwrite it, and needs no further memory.
#[cold]
fn check_memory(
    operation: &'static str,
    result: &AbstractArray,
    operands: &[&AbstractArray],
    is_elsewhere: bool,
) -> Result<(), TensorError> {
    let granted = || {
        is_elsewhere
            || operands
                .iter()
                .any(|operand| array::spanned_bytes(operand) >= array::spanned_bytes(result))
            || array::is_granted(result)
    };
    if array::fits_memory(result) && granted() {
        return Ok(());
    }
    Err(TensorError::too_large(operation, result))
}

/// Returns an error if a new tensor is too large for the address space. For a tensor that is created immediately, also
/// returns an error if the system does not grant its memory.
pub(crate) fn check_creation(
    operation: &'static str,
    result: &AbstractArray,
) -> Result<(), TensorError> {
    if array::is_surely_granted(result) {
        return Ok(());
    }
    let is_elsewhere = innermost_stage().is_some() || device::is_chosen();
    check_memory(operation, result, &[], is_elsewhere)
}

/// Applies a primitive and returns its single result.
#[track_caller]
pub(crate) fn bind_one(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
) -> Result<Tensor, TensorError> {
    bind(primitive, operands).map(first)
}

/// Returns the first result of a primitive.
#[track_caller]
fn first<T>(results: Outputs<T>) -> T {
    match results.into_iter().next() {
        Some(result) => result,
        None => bug("a result of a primitive"),
    }
}

fn evaluate(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    line: &'static Location<'static>,
) -> Result<Outputs<Tensor>, TensorError> {
    let operands: Operands = operands
        .iter()
        .map(|operand| expect_some(operand.array().cloned(), "a value for each operand"))
        .collect();
    let results = or_too_large(
        || primitive.name(),
        || {
            if checks::active() {
                checks::evaluate(primitive, operands, line, None)
            } else {
                evaluation::try_evaluate(primitive, operands)
            }
        },
    )?;
    Ok(results.into_iter().map(Tensor::from_array).collect())
}

fn interpret(
    level: usize,
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    results: &Outputs<AbstractArray>,
    line: &'static Location<'static>,
) -> Result<Outputs<Tensor>, TensorError> {
    let (trace, content) = level_at(level, primitive);
    let _line = LineGuard::set(line);
    let _below = InnermostGuard(INNERMOST.replace(content.below));
    match &content.interpreter {
        Interpreter::Jvp => {
            let _device = device::beside(operands.iter().copied());
            let (primals, tangents): (Vec<_>, Vec<_>) = operands
                .iter()
                .map(|operand| trace.undual(operand))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .unzip();
            let (results, tangents) = primitive.jvp(&primals, &tangents);
            Ok(
                pairs(results, tangents, "a tangent, or none, for each result")
                    .map(|(result, tangent)| trace.dual(result, tangent))
                    .collect(),
            )
        }
        Interpreter::Batch(batch) => {
            let _device = device::beside(operands.iter().copied());
            let (values, axes): (Vec<_>, Vec<_>) = operands
                .iter()
                .map(|operand| trace.unbatched(operand))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .unzip();
            // Hide the name of the batch axis from a rule of a primitive that does not work over this axis.
            let name = batch.name.as_ref();
            let batch = BatchAxis {
                size: batch.size,
                name: name
                    .filter(|name| primitive.axis_names().contains(name))
                    .cloned(),
                is_mesh: batch.is_mesh,
            };
            let (results, axes) = primitive.batch(&values, &axes, &batch);
            Ok(
                pairs(results, axes, "a batch axis, or none, for each result")
                    .map(|(result, axis)| match axis {
                        Some(axis) => trace.batched(result, axis),
                        None => result,
                    })
                    .collect(),
            )
        }
        Interpreter::Tape(builder) => Ok(record(
            trace,
            builder,
            primitive,
            operands,
            results,
            line,
            Payload::Tape,
        )),
        Interpreter::Stage(builder, recorder) => Ok(record(
            trace,
            builder,
            primitive,
            operands,
            results,
            line,
            |variable| Payload::Stage(variable, *recorder),
        )),
    }
}

/// Returns the handle and the data of a trace level that interprets an operation. Does not remove the level from the
/// stack.
fn level_at(level: usize, primitive: &dyn Primitive) -> (LevelHandle, Rc<Content>) {
    let found = with_levels(|levels| {
        let found = levels.get(level)?;
        Some((found.id(), Rc::clone(found.content())))
    });
    let Some((id, content)) = found else {
        let operation = primitive.name();
        bug(format_args!(
            "trace level {level} to exist for `{operation}`, found no such level"
        ))
    };
    match content.downcast() {
        Ok(content) => (LevelHandle { level, id }, content),
        Err(_) => bug(format_args!(
            "a transformation of tensors at trace level {level} for `{}`, found other data",
            primitive.name()
        )),
    }
}

/// Adds an equation to the jaxpr that a trace level records. Returns the results as tensors of this level.
fn record(
    trace: LevelHandle,
    builder: &RefCell<Builder>,
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    results: &Outputs<AbstractArray>,
    line: &'static Location<'static>,
    payload: impl Fn(Variable) -> Payload,
) -> Outputs<Tensor> {
    let mut builder = builder.borrow_mut();
    let inputs = operands
        .iter()
        .map(|operand| match operand.tracer() {
            Some(tracer) if tracer.place.id == trace.id => tracer.payload.variable(),
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

/// A guard that hides the trace level of a running rule, and all levels above, from the tensors that the rule creates.
/// These tensors belong to a lower level, and may outlive the hidden levels.
struct InnermostGuard(Option<usize>);

impl Drop for InnermostGuard {
    fn drop(&mut self) {
        INNERMOST.set(self.0);
    }
}

/// Applies a primitive, and returns the primitive's results and a `None` for each result. JVP rules call this function
/// if all tangents are zeros. Batching rules call this function if no operand is batched.
#[track_caller]
pub(crate) fn alone<T>(
    primitive: &dyn Primitive,
    operands: &[Tensor],
) -> (Outputs<Tensor>, Outputs<Option<T>>) {
    let operands: SmallVec<[&Tensor; 4]> = operands.iter().collect();
    let results = or_panic(bind(primitive, &operands));
    let nothing = results.iter().map(|_| None).collect();
    (results, nothing)
}

impl Equation {
    /// Applies the operation to tensors, which may belong to any trace levels.
    pub(crate) fn apply(&self, operands: &[&Tensor]) -> Outputs<Tensor> {
        at_line(self.line, || or_panic(bind(&*self.primitive, operands)))
    }
}

#[cfg(test)]
mod tests {
    use pytree_core::level::{LevelKind, TraceLevel};

    use super::level_at;
    use crate::primitives::select::Select;
    use crate::tensor::trace::{Interpreter, Trace};

    fn message(level: usize) -> String {
        let find = move || level_at(level, &Select);
        *std::panic::catch_unwind(find)
            .unwrap_err()
            .downcast()
            .unwrap()
    }

    #[test]
    fn unknown_level_is_a_bug() {
        let outer = Trace::begin(Interpreter::Jvp);
        assert_eq!(level_at(0, &Select).0.id, outer.id);
        assert_eq!(
            message(1),
            "this is a bug in pytree: expected trace level 1 to exist for `select`, found no such level; please report it"
        );
        let _other = TraceLevel::begin("other", LevelKind::Running);
        assert_eq!(
            message(1),
            "this is a bug in pytree: expected a transformation of tensors at trace level 1 for `select`, found other data; please report it"
        );
    }
}
