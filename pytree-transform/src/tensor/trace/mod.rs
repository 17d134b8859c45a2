//! Traces: what a transformation does at its level, and where an operation goes.
//!
//! Each transformation in progress on this thread is a level of the stack in `pytree_core::level`, and keeps its
//! interpreter there. An operation goes to the innermost level among its operands; there a rule of its primitive turns
//! it into operations of the levels below. A level is removed by a guard, so a panic leaves the thread usable, and a
//! traced tensor that outlived its level is recognised by the level's number, which is never used twice.
//!
//! An operation over a named batch axis goes to the innermost level that binds the name, also if no operand is
//! batched there; levels above it see the operation first.

mod batch_axes;
mod bind;
mod lines;
mod recorder;

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use pytree_core::level::{Level, LevelId, LevelKind, TraceLevel, with_levels};

pub(crate) use self::batch_axes::{axis_length, bound_length};
pub(crate) use self::bind::{bind, bind_one, check_creation};
pub(crate) use self::lines::{at_line, at_line_by_default, at_own_lines, current_line};
pub(crate) use self::recorder::Recorder;
use crate::base::dtype::AbstractArray;
use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Builder, Variable};
use crate::tensor::primitive::BatchAxis;
use pytree_core::bug::bug;

/// What a level of the stack does with an operation.
#[derive(Debug)]
pub(crate) enum Interpreter {
    /// Carries tangents along.
    Jvp,
    /// Carries a batch axis along, to which operations refer by its name, if it has one.
    Batch(BatchAxis),
    /// Records operations on tangents for transposition.
    Tape(Rc<RefCell<Builder>>),
    /// Records operations for compilation, creations too.
    Stage(Rc<RefCell<Builder>>, Recorder),
}

impl Interpreter {
    /// The transformation as messages name it, and whether it keeps what it records: then what a reference holds now
    /// must not be in it.
    fn of_level(&self) -> (&'static str, LevelKind) {
        match self {
            Self::Jvp | Self::Tape(_) => ("grad", LevelKind::Running),
            Self::Batch(_) => ("vmap", LevelKind::Running),
            Self::Stage(_, recorder) => (recorder.name(), recorder.level_kind()),
        }
    }
}

/// What a level keeps on the stack.
#[derive(Debug)]
struct Content {
    interpreter: Interpreter,
    /// The level that was innermost when this one began.
    below: Option<usize>,
}

impl Content {
    /// What a level keeps, if a transformation of tensors began it.
    fn of(level: &Level) -> Option<&Self> {
        level.content().downcast_ref()
    }
}

/// A tensor under a transformation.
#[derive(Debug)]
pub(crate) struct Tracer {
    place: Place,
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
    /// The variable of the jaxpr being recorded, and what records it.
    Stage(Variable, Recorder),
}

impl Payload {
    /// The transformation, as messages name it.
    fn transformation(&self) -> &'static str {
        match self {
            Self::Jvp { .. } | Self::Tape(_) => "grad",
            Self::Batch { .. } => "vmap",
            Self::Stage(_, recorder) => recorder.name(),
        }
    }

    /// The variable of what its level records.
    fn variable(&self) -> Variable {
        match self {
            Self::Tape(variable) | Self::Stage(variable, _) => *variable,
            other => mixed("a variable of what is recorded", other),
        }
    }
}

impl Tracer {
    /// The transformation, as messages name it.
    pub(crate) fn transformation(&self) -> &'static str {
        self.payload.transformation()
    }
}

/// Whether a transformation is in progress on this thread.
pub(crate) fn is_transforming() -> bool {
    with_levels(|levels| !levels.is_empty())
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
    /// The innermost level for the code that runs: while a rule runs, the one below its own.
    static INNERMOST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Where a level is: makes and reads the tensors of the level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    level: usize,
    id: LevelId,
}

/// A transformation in progress; dropping it removes its level.
#[derive(Debug)]
pub(crate) struct Trace {
    place: Place,
    below: Option<usize>,
    /// Removes the level from the stack when it is dropped.
    _level: TraceLevel,
}

impl Trace {
    /// Begins a transformation.
    pub(crate) fn begin(interpreter: Interpreter) -> Self {
        let (name, kind) = interpreter.of_level();
        let below = INNERMOST.get();
        let content = Rc::new(Content { interpreter, below });
        let level = TraceLevel::begin_with(name, kind, content);
        let place = Place {
            level: level.depth(),
            id: level.id(),
        };
        INNERMOST.set(Some(place.level));
        Self {
            place,
            below,
            _level: level,
        }
    }
}

impl Deref for Trace {
    type Target = Place;
    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        INNERMOST.set(self.below);
    }
}

impl Place {
    /// A tensor of this level.
    pub(crate) fn tensor(&self, info: AbstractArray, payload: Payload) -> Tensor {
        Tensor::traced(Arc::new(Tracer {
            place: *self,
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
    fn payload<'t>(&self, tensor: &'t Tensor) -> Result<Option<&'t Payload>, TensorError> {
        match tensor.tracer() {
            Some(tracer) if tracer.place.id == self.id => Ok(Some(&tracer.payload)),
            Some(tracer) => {
                check_alive(tracer, "return")?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// The variable of a tensor in what this level records; nothing if it is from a level below.
    ///
    /// # Errors
    /// If the tensor is from a transformation that is over.
    pub(crate) fn variable(&self, tensor: &Tensor) -> Result<Option<Variable>, TensorError> {
        Ok(self.payload(tensor)?.map(Payload::variable))
    }

    /// Value and tangent of a tensor at this level.
    pub(crate) fn undual(&self, tensor: &Tensor) -> Result<(Tensor, Option<Tensor>), TensorError> {
        Ok(match self.payload(tensor)? {
            Some(Payload::Jvp { primal, tangent }) => (primal.clone(), tangent.clone()),
            Some(other) => mixed("a value with its tangent", other),
            None => (tensor.clone(), None),
        })
    }

    /// All values of a tensor at this level, and the axis they lie along.
    pub(crate) fn unbatched(
        &self,
        tensor: &Tensor,
    ) -> Result<(Tensor, Option<usize>), TensorError> {
        Ok(match self.payload(tensor)? {
            Some(Payload::Batch { value, axis }) => (value.clone(), Some(*axis)),
            Some(other) => mixed("a batch of values", other),
            None => (tensor.clone(), None),
        })
    }
}

/// A level has tensors of one sort: this one has another.
#[cold]
#[track_caller]
fn mixed(expected: &str, found: &Payload) -> ! {
    let found = found.transformation();
    bug(format_args!(
        "{expected} at a level, found a tensor of `{found}`"
    ))
}

/// Whether the tracer's level is running on this thread.
fn check_alive(tracer: &Tracer, operation: &'static str) -> Result<(), TensorError> {
    let place = tracer.place;
    let alive = with_levels(|levels| {
        levels
            .get(place.level)
            .is_some_and(|level| level.id() == place.id)
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

/// The innermost level that records for compilation: creations go there, or a jitted `zeros` would
/// become a stored constant; and effects, or they would happen while the function is recorded.
fn innermost_stage() -> Option<usize> {
    let mut place = INNERMOST.get()?;
    with_levels(|levels| {
        loop {
            let content = content_at(levels, place);
            if matches!(content.interpreter, Interpreter::Stage(..)) {
                return Some(place);
            }
            place = content.below?;
        }
    })
}

/// What a level keeps that a transformation of tensors began.
#[track_caller]
fn content_at(levels: &[Level], place: usize) -> &Content {
    match levels.get(place).and_then(Content::of) {
        Some(content) => content,
        None => bug(format_args!(
            "a transformation of tensors at level {place} of {}",
            levels.len()
        )),
    }
}

/// Whether something records for compilation.
pub(crate) fn is_staging() -> bool {
    innermost_stage().is_some()
}
