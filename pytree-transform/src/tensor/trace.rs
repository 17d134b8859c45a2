//! Traces: the stack of interpreters, and where an operation goes.
//!
//! Each transformation in progress on this thread is a level of a stack. An operation goes to the
//! innermost level among its operands; there a rule of its primitive turns it into operations of the
//! levels below. A level is removed by a guard, so a panic leaves the thread usable, and a traced tensor
//! that outlived its level is recognised by the level's number, which is never used twice.
//!
//! An operation over a named batch axis goes to the innermost level that binds the name, also if no operand is
//! batched there; levels above it see the operation first.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pytree_core::level::{LevelKind, TraceLevel};
use smallvec::SmallVec;

use crate::base::array;
use crate::base::axis_names::AxisName;
use crate::base::dtype::AbstractArray;
use crate::base::error::{TensorError, called_by_user, or_panic};
use crate::tensor::Tensor;
use crate::tensor::checks;
use crate::tensor::jaxpr::{Builder, Variable};
use crate::tensor::primitive::{Collective, Operands, Outputs, Primitive};

/// The number of one running transformation; never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(u64);

/// What a level of the stack does with an operation.
#[derive(Clone, Debug)]
pub(crate) enum Interpreter {
    /// Carries tangents along.
    Jvp,
    /// Carries a batch axis of this length along, to which operations refer by its name, if it has one.
    Batch { size: usize, name: Option<AxisName> },
    /// Records operations on tangents for transposition.
    Tape(Rc<RefCell<Builder>>),
    /// Records operations for compilation, creations too; named as messages name the transformation.
    Stage(Rc<RefCell<Builder>>, &'static str),
}

impl Interpreter {
    /// The transformation as messages name it, and whether it keeps what it records: then what a reference holds now
    /// must not be in it.
    fn of_level(&self) -> (&'static str, LevelKind) {
        match self {
            Self::Jvp | Self::Tape(_) => ("grad", LevelKind::Running),
            Self::Batch { .. } => ("vmap", LevelKind::Running),
            Self::Stage(_, name @ ("jit" | "make_jaxpr")) => (name, LevelKind::Recording),
            Self::Stage(_, name) => (name, LevelKind::Running),
        }
    }
}

#[derive(Clone, Debug)]
struct Level {
    id: TraceId,
    interpreter: Interpreter,
    /// The level that was innermost when this one began.
    below: Option<usize>,
}

/// A tensor under a transformation.
#[derive(Debug)]
pub(crate) struct Tracer {
    level: usize,
    id: TraceId,
    pub(crate) info: AbstractArray,
    pub(crate) payload: Payload,
}

/// What a level knows of a tensor.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// Value and tangent; none stands for zeros.
    Jvp {
        primal: Tensor,
        tangent: Option<Tensor>,
    },
    /// All values, and the axis they lie along.
    Batch { value: Tensor, axis: usize },
    /// The variable of the jaxpr being recorded.
    Tape(Variable),
    /// The variable of the jaxpr being recorded.
    Stage(Variable),
}

impl Tracer {
    /// The transformation, as messages name it.
    pub(crate) fn transformation(&self) -> &'static str {
        match self.payload {
            Payload::Jvp { .. } | Payload::Tape(_) => "grad",
            Payload::Batch { .. } => "vmap",
            Payload::Stage(_) => LEVELS.with_borrow(|levels| match levels.get(self.level) {
                Some(Level {
                    id,
                    interpreter: Interpreter::Stage(_, name),
                    ..
                }) if *id == self.id => name,
                _ => "jit",
            }),
        }
    }
}

/// Whether a transformation is in progress on this thread.
pub(crate) fn is_transforming() -> bool {
    LEVELS.with_borrow(|levels| !levels.is_empty())
}

/// Whether the operations on these tangents are recorded for transposition. Then nothing that does not
/// depend on them may be computed together with them, or it would be recorded, too.
pub(crate) fn on_tape(mut tangents: impl Iterator<Item = Tensor>) -> bool {
    tangents.any(|tangent| {
        tangent
            .tracer()
            .is_some_and(|tracer| matches!(tracer.payload, Payload::Tape(_)))
    })
}

thread_local! {
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
    /// The innermost level for the code that runs: while a rule runs, the one below its own.
    static INNERMOST: Cell<Option<usize>> = const { Cell::new(None) };
    static LINE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A level of the stack; dropping it removes the level.
#[derive(Debug)]
pub(crate) struct Trace {
    level: usize,
    id: TraceId,
    /// What references know of the level.
    _level: Option<TraceLevel>,
}

impl Trace {
    /// Begins a transformation.
    pub(crate) fn begin(interpreter: Interpreter) -> Self {
        let id = TraceId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let (name, kind) = interpreter.of_level();
        LEVELS.with_borrow_mut(|levels| {
            let level = levels.len();
            levels.push(Level {
                id,
                interpreter,
                below: INNERMOST.replace(Some(level)),
            });
            Self {
                level,
                id,
                _level: Some(TraceLevel::begin(name, kind)),
            }
        })
    }

    /// A tensor of this level.
    pub(crate) fn tensor(&self, info: AbstractArray, payload: Payload) -> Tensor {
        Tensor::traced(Arc::new(Tracer {
            level: self.level,
            id: self.id,
            info,
            payload,
        }))
    }

    /// A tensor of this level with a value and a tangent.
    pub(crate) fn dual(&self, primal: Tensor, tangent: Option<Tensor>) -> Tensor {
        self.tensor(primal.info().clone(), Payload::Jvp { primal, tangent })
    }

    /// A tensor of this level whose values lie along an axis.
    pub(crate) fn batched(&self, value: Tensor, axis: usize) -> Tensor {
        let mut info = value.info().clone();
        info.shape.remove(axis);
        self.tensor(info, Payload::Batch { value, axis })
    }

    /// What this level knows of a tensor; nothing if it is from a level below.
    ///
    /// # Errors
    /// If the tensor is from a transformation that is over.
    pub(crate) fn payload<'t>(
        &self,
        tensor: &'t Tensor,
    ) -> Result<Option<&'t Payload>, TensorError> {
        match tensor.tracer() {
            Some(tracer) if tracer.id == self.id => Ok(Some(&tracer.payload)),
            Some(tracer) => {
                check_alive(tracer, "return")?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Value and tangent of a tensor at this level.
    pub(crate) fn undual(&self, tensor: &Tensor) -> Result<(Tensor, Option<Tensor>), TensorError> {
        Ok(match self.payload(tensor)? {
            Some(Payload::Jvp { primal, tangent }) => (primal.clone(), tangent.clone()),
            _ => (tensor.clone(), None),
        })
    }

    /// All values of a tensor at this level, and the axis they lie along.
    pub(crate) fn unbatched(
        &self,
        tensor: &Tensor,
    ) -> Result<(Tensor, Option<usize>), TensorError> {
        Ok(match self.payload(tensor)? {
            Some(Payload::Batch { value, axis }) => (value.clone(), Some(*axis)),
            _ => (tensor.clone(), None),
        })
    }
}

/// The tangent of the result of a function of one tensor.
pub(crate) fn tangent_of(
    function: impl FnOnce(&Tensor) -> Tensor,
    primal: &Tensor,
    tangent: &Tensor,
) -> Tensor {
    let trace = Trace::begin(Interpreter::Jvp);
    let result = function(&trace.dual(primal.clone(), Some(tangent.clone())));
    let (value, tangent) = or_panic(trace.undual(&result));
    drop(trace);
    tangent.unwrap_or_else(|| Tensor::zeros_like(&value))
}

impl Drop for Trace {
    fn drop(&mut self) {
        LEVELS.with_borrow_mut(|levels| {
            INNERMOST.set(levels.get(self.level).and_then(|level| level.below));
            levels.truncate(self.level);
        });
    }
}

/// Whether the tracer's level is running on this thread.
fn check_alive(tracer: &Tracer, operation: &'static str) -> Result<(), TensorError> {
    let alive = LEVELS.with_borrow(|levels| {
        levels
            .get(tracer.level)
            .is_some_and(|level| level.id == tracer.id)
    });
    if alive {
        return Ok(());
    }
    Err(TensorError::Escaped {
        operation,
        found: tracer.info.clone(),
        transformation: tracer.transformation(),
    })
}

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
    let level = if let Some(collective) = primitive.collective() {
        level.max(level_of(collective))
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
pub(crate) fn first<T>(results: Outputs<T>) -> T {
    match results.into_iter().next() {
        Some(result) => result,
        None => panic!("a primitive gave no result; this is a bug of pytree"),
    }
}

/// The innermost level that records for compilation: creations go there, or a jitted `zeros` would
/// become a stored constant; and effects, or they would happen while the function is recorded.
fn innermost_stage() -> Option<usize> {
    LEVELS.with_borrow(|levels| {
        let mut place = INNERMOST.get();
        while let Some(level) = place.and_then(|place| levels.get(place)) {
            if matches!(level.interpreter, Interpreter::Stage(..)) {
                break;
            }
            place = level.below;
        }
        place
    })
}

/// The level that an operation over named axes goes to if no operand is from one above: the innermost that binds
/// one of its names, or one above that which records for compilation.
fn level_of(collective: &dyn Collective) -> Option<usize> {
    let names = collective.axis_names().iter();
    names.filter_map(binder).max().max(innermost_stage())
}

/// The innermost level that binds the name of a batch axis.
fn binder(name: &AxisName) -> Option<usize> {
    LEVELS.with_borrow(|levels| {
        levels.iter().rposition(
            |level| matches!(&level.interpreter, Interpreter::Batch { name: Some(bound), .. } if bound == name),
        )
    })
}

/// The length of the batch axis of a name, if it is bound.
pub(crate) fn bound_length(name: &AxisName) -> Option<usize> {
    let level = binder(name)?;
    LEVELS.with_borrow(|levels| match levels.get(level)?.interpreter {
        Interpreter::Batch { size, .. } => Some(size),
        _ => None,
    })
}

/// As [`bound_length`]; what is being recorded for compilation under the batch axis depends on it from now on.
///
/// # Errors
/// [`TensorError::UnboundAxis`] with the names that are bound.
pub(crate) fn axis_length(operation: &'static str, name: &AxisName) -> Result<usize, TensorError> {
    let (Some(level), Some(length)) = (binder(name), bound_length(name)) else {
        return Err(TensorError::UnboundAxis {
            operation,
            name: name.to_string(),
            bound: bound_names(),
        });
    };
    LEVELS.with_borrow(|levels| {
        for above in &levels[level + 1..] {
            if let Interpreter::Stage(builder, _) = &above.interpreter {
                builder.borrow_mut().depend_on(name, length);
            }
        }
    });
    Ok(length)
}

/// The names of batch axes that are bound, innermost first.
fn bound_names() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    LEVELS.with_borrow(|levels| {
        for level in levels.iter().rev() {
            if let Interpreter::Batch {
                name: Some(name), ..
            } = &level.interpreter
                && !names.iter().any(|known| **known == **name)
            {
                names.push(name.to_string());
            }
        }
    });
    names
}

/// Whether something records for compilation.
pub(crate) fn is_staging() -> bool {
    innermost_stage().is_some()
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
        Interpreter::Batch { size, name } => {
            let (values, axes): (Vec<_>, Vec<_>) = operands
                .iter()
                .map(|operand| trace.unbatched(operand))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .unzip();
            let own = name.as_ref().and_then(|name| {
                let collective = primitive.collective()?;
                let works_over = collective.axis_names().contains(name);
                works_over.then_some((collective, name))
            });
            let (results, axes) = match own {
                Some((collective, name)) => collective.batch_named(name, &values, &axes, size),
                None => primitive.batch(&values, &axes, size),
            };
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

/// While it lives, operations are attributed to the user's line of the operation whose rule runs.
struct LineGuard(Option<&'static Location<'static>>);

impl LineGuard {
    fn set(line: &'static Location<'static>) -> Self {
        Self(LINE.replace(Some(line)))
    }
}
impl Drop for LineGuard {
    fn drop(&mut self) {
        LINE.set(self.0);
    }
}

/// The user's line of the operation whose rule runs; the caller's if none does.
#[track_caller]
pub(crate) fn current_line() -> &'static Location<'static> {
    // A closure would be its own caller.
    match LINE.get() {
        Some(line) => line,
        None => Location::caller(),
    }
}

/// Runs `function` with operations attributed to `line`.
pub(crate) fn at_line<R>(line: &'static Location<'static>, function: impl FnOnce() -> R) -> R {
    let _line = LineGuard::set(line);
    function()
}

/// As [`at_line`], unless operations are attributed to a line already.
pub(crate) fn at_line_by_default<R>(
    line: &'static Location<'static>,
    function: impl FnOnce() -> R,
) -> R {
    let _line = LineGuard::set(LINE.get().unwrap_or(line));
    function()
}

/// Runs `function`, a user's, with operations attributed to the lines it calls them from.
pub(crate) fn at_own_lines<R>(function: impl FnOnce() -> R) -> R {
    let _line = LineGuard(LINE.replace(None));
    let _called = called_by_user();
    function()
}
