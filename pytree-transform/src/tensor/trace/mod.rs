//! Traces. A trace level is the place of a transformation on the stack, and its interpreter is the way in which the
//! transformation interprets operations.
//!
//! Each transformation in progress on this thread is a level of the stack in `pytree_core::level`. The level holds the
//! interpreter of the transformation. An operation is interpreted by the innermost level to which an operand belongs: a
//! rule of the primitive turns the operation into operations of lower levels. A guard removes the level from the stack,
//! even after a panic, so the thread stays usable. The identifier of a level is never reused, so a traced tensor that
//! outlives its level is recognised.
//!
//! An operation over a named batch axis is interpreted by the innermost level that binds the name, even if no operand
//! is batched at this level. Levels above this level interpret the operation first.

mod batch_axes;
mod bind;
mod conditions;
mod lines;
mod recorder;
mod stand_ins;
mod streams;

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use pytree_base::bug::bug;
use pytree_core::level::{Level, LevelId, LevelKind, TraceLevel, with_levels};
use pytree_core::{Leaf as _, MappedAxis};
use pytree_kernels::base::dtype::AbstractArray;

pub(crate) use self::batch_axes::{axis_length, bound_length};
pub(crate) use self::bind::{bind, bind_one, bind_repeating, check_creation, overwriting};
pub(crate) use self::conditions::{suspended, under};
pub(crate) use self::lines::{
    at_line, at_line_by_default, at_own_lines, current_line, in_rule, known_line,
};
pub(crate) use self::recorder::Recorder;
pub(crate) use self::stand_ins::{Captured, standing_in};
use self::streams::CreatedKeys;
pub use self::streams::{is_same_for_all_examples, note_created_key};
use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Builder, Variable};
use crate::tensor::primitive::BatchAxis;

/// The way in which a trace level interprets operations.
#[derive(Debug)]
pub(crate) enum Interpreter {
    /// Computes the results and their tangents.
    Jvp,
    /// Applies operations to a whole batch. Collectives refer to the batch axis by its name, if the axis has a name.
    Batch(BatchAxis),
    /// Records operations on tangents, so that they can be transposed.
    Tape(Rc<RefCell<Builder>>),
    /// Records operations for compilation, including operations that create tensors.
    Stage(Rc<RefCell<Builder>>, Recorder),
}

impl Interpreter {
    /// Returns the name of the transformation for messages, and the kind of its trace level. The kind says whether a
    /// function is recorded for later calls. A recording for later calls must not contain the current values of
    /// references.
    fn of_level(&self) -> (&'static str, LevelKind) {
        match self {
            Self::Jvp | Self::Tape(_) => ("grad", LevelKind::Running),
            Self::Batch(_) => ("vmap", LevelKind::Running),
            Self::Stage(_, recorder) => (recorder.name(), recorder.level_kind()),
        }
    }

    /// Returns whether this interpreter records a function with a custom derivative rule.
    fn has_rule(&self) -> bool {
        matches!(
            self,
            Self::Stage(_, Recorder::CustomJvp | Recorder::CustomVjp)
        )
    }
}

/// The data that a trace level stores on the stack of levels.
#[derive(Debug)]
struct Content {
    interpreter: Interpreter,
    /// The position of the level that was innermost when this level began.
    below: Option<usize>,
    /// The keys of the random streams that were created inside of this level. `None` if the level is not a `vmap` of
    /// the user.
    created_keys: Option<CreatedKeys>,
}

impl Content {
    /// Returns the data of a trace level, or `None` if no transformation of tensors began the level.
    fn of(level: &Level) -> Option<&Self> {
        level.content().downcast_ref()
    }
}

/// The data of a traced tensor: its trace level, and the data that the level stores for the tensor. A traced tensor has
/// no array.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Tracer {
    /// This field must be the first field of the struct. See `Array` for the reason.
    pub(crate) info: AbstractArray,
    place: Place,
    pub(crate) payload: Payload,
}

/// The data that a trace level stores for a traced tensor.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// The value of the tensor and its tangent. A tangent of `None` means zeros.
    Jvp {
        primal: Tensor,
        tangent: Option<Tensor>,
    },
    /// The values of all examples as one tensor, and the batch axis of this tensor.
    Batch { value: Tensor, axis: usize },
    /// The tensor's variable in the tape that is being recorded.
    Tape(Variable),
    /// The tensor's variable in the jaxpr that is being recorded, and the recorder: the function of the library that
    /// records the jaxpr.
    Stage(Variable, Recorder),
}

impl Payload {
    /// Returns the name of the transformation that traces the tensor, for messages.
    fn transformation(&self) -> &'static str {
        match self {
            Self::Jvp { .. } | Self::Tape(_) => "grad",
            Self::Batch { .. } => "vmap",
            Self::Stage(_, recorder) => recorder.name(),
        }
    }

    /// Returns the tensor's variable in the jaxpr that its level records.
    fn variable(&self) -> Variable {
        match self {
            Self::Tape(variable) | Self::Stage(variable, _) => *variable,
            other => mixed("a variable of the recorded jaxpr", other),
        }
    }
}

impl Tracer {
    /// Returns the name of the transformation that traces the tensor, for messages.
    pub(crate) fn transformation(&self) -> &'static str {
        self.payload.transformation()
    }
}

/// Returns the axes that enclosing `vmap`s removed from a tensor, the innermost first. A tensor that belongs to a recorded
/// function has none: the recording knows only the shape of one example.
pub(crate) fn mapped_axes(tensor: &Tensor) -> Vec<MappedAxis> {
    let mut axes = Vec::new();
    let mut tensor = tensor;
    while let Some(tracer) = tensor.tracer() {
        tensor = match &tracer.payload {
            Payload::Jvp { primal, .. } => primal,
            Payload::Batch { value, axis } => {
                axes.extend(value.array_info().map(|array| MappedAxis {
                    axis: *axis,
                    length: value.shape()[*axis],
                    array: array.into(),
                }));
                value
            }
            Payload::Tape(_) | Payload::Stage(..) => break,
        };
    }
    axes
}

/// Returns whether a transformation is in progress on this thread.
pub(crate) fn is_transforming() -> bool {
    with_levels(|levels| !levels.is_empty())
}

/// Returns whether operations on these tangents are recorded for transposition. If the result is true, a value that
/// does not depend on the tangents must be computed by a separate operation, so that the tape does not record this
/// value.
pub(crate) fn on_tape(mut tangents: impl Iterator<Item = Tensor>) -> bool {
    tangents.any(|tangent| {
        tangent
            .tracer()
            .is_some_and(|tracer| matches!(tracer.payload, Payload::Tape(_)))
    })
}

thread_local! {
    /// The innermost trace level that running code can use. While a rule runs, this is a level below the level of the
    /// rule.
    static INNERMOST: Cell<Option<usize>> = const { Cell::new(None) };
    /// The number of levels that record functions with custom derivative rules.
    static WITH_RULES: Cell<usize> = const { Cell::new(0) };
}

/// A handle of a trace level, which creates and reads the traced tensors of this level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    level: usize,
    id: LevelId,
}

/// A transformation in progress. Dropping this value removes its trace level.
#[derive(Debug)]
pub(crate) struct Trace {
    place: Place,
    below: Option<usize>,
    has_rule: bool,
    /// A guard that removes the level from the stack.
    _level: TraceLevel,
}

impl Trace {
    /// Begins a transformation, which adds a trace level to the stack.
    pub(crate) fn begin(interpreter: Interpreter) -> Self {
        Self::begin_with(interpreter, None)
    }

    /// Begins a `vmap` of the user.
    pub(crate) fn begin_vmap(batch: BatchAxis) -> Self {
        Self::begin_with(Interpreter::Batch(batch), Some(CreatedKeys::default()))
    }

    fn begin_with(interpreter: Interpreter, created_keys: Option<CreatedKeys>) -> Self {
        let (name, kind) = interpreter.of_level();
        let below = INNERMOST.get();
        let has_rule = interpreter.has_rule();
        let content = Rc::new(Content {
            interpreter,
            below,
            created_keys,
        });
        let level = TraceLevel::begin_with(name, kind, content);
        let place = Place {
            level: level.depth(),
            id: level.id(),
        };
        INNERMOST.set(Some(place.level));
        WITH_RULES.set(WITH_RULES.get() + usize::from(has_rule));
        Self {
            place,
            below,
            has_rule,
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
        WITH_RULES.set(WITH_RULES.get() - usize::from(self.has_rule));
    }
}

impl Place {
    /// Creates a traced tensor of this level.
    pub(crate) fn tensor(&self, info: AbstractArray, payload: Payload) -> Tensor {
        Tensor::traced(Arc::new(Tracer {
            place: *self,
            info,
            payload,
        }))
    }

    /// Creates a traced tensor of this level from a value and its tangent.
    pub(crate) fn dual(&self, primal: Tensor, tangent: Option<Tensor>) -> Tensor {
        self.tensor(primal.info().clone(), Payload::Jvp { primal, tangent })
    }

    /// Creates a traced tensor of this level from the values of all examples and their batch axis.
    pub(crate) fn batched(&self, value: Tensor, axis: usize) -> Tensor {
        let mut info = value.info().clone();
        info.shape.remove(axis);
        self.tensor(info, Payload::Batch { value, axis })
    }

    /// Returns the data that this level stores for a tensor, or `None` if the tensor belongs to a lower level.
    ///
    /// # Errors
    /// Returns [`TensorError::Escaped`] if the transformation of the tensor has finished.
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

    /// Returns the variable of a tensor in the jaxpr that this level records, or `None` if the tensor belongs to a
    /// lower level.
    ///
    /// # Errors
    /// Returns [`TensorError::Escaped`] if the transformation of the tensor has finished.
    pub(crate) fn variable(&self, tensor: &Tensor) -> Result<Option<Variable>, TensorError> {
        Ok(self.payload(tensor)?.map(Payload::variable))
    }

    /// Returns the value that a tensor has at this level, and its tangent. A tangent of `None` means zeros.
    pub(crate) fn undual(&self, tensor: &Tensor) -> Result<(Tensor, Option<Tensor>), TensorError> {
        Ok(match self.payload(tensor)? {
            Some(Payload::Jvp { primal, tangent }) => (primal.clone(), tangent.clone()),
            Some(other) => mixed("a value and its tangent", other),
            None => (tensor.clone(), None),
        })
    }

    /// Returns the values that a tensor has at this level for all examples, and their batch axis. The axis is `None` if
    /// all examples have the same value.
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

/// Reports a bug: the data of a tensor do not belong to the transformation of its trace level.
#[cold]
#[track_caller]
fn mixed(expected: &str, found: &Payload) -> ! {
    let found = found.transformation();
    bug(format_args!(
        "a tensor that stores {expected} at its trace level, found a tensor of `{found}`"
    ))
}

/// Checks that the transformation of a tracer is still in progress on this thread.
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

/// Returns the innermost level that records for compilation. This level records all operations that create tensors,
/// because a `zeros` that is not recorded would become a constant of the compiled function. This level also records all
/// operations with side effects, because an effect that is not recorded would happen during recording.
fn innermost_stage() -> Option<usize> {
    innermost(|interpreter| matches!(interpreter, Interpreter::Stage(..)))
}

/// Returns the innermost level that records a function with a custom rule. This level records all operations on traced
/// tensors. So the function captures the same traced tensors as the rule. Without the recording, the function would
/// capture values that the function computes from these tensors.
fn innermost_with_rule() -> Option<usize> {
    if WITH_RULES.get() == 0 {
        return None;
    }
    innermost(Interpreter::has_rule)
}

/// Among the levels that running code can use, returns the innermost level for whose interpreter `is_wanted` returns
/// true.
fn innermost(is_wanted: impl Fn(&Interpreter) -> bool) -> Option<usize> {
    let mut place = INNERMOST.get()?;
    with_levels(|levels| {
        loop {
            let content = content_at(levels, place);
            if is_wanted(&content.interpreter) {
                return Some(place);
            }
            place = content.below?;
        }
    })
}

/// Returns the data of the level at position `place` of the stack. The level must belong to a transformation of
/// tensors.
#[track_caller]
fn content_at(levels: &[Level], place: usize) -> &Content {
    match levels.get(place).and_then(Content::of) {
        Some(content) => content,
        None => bug(format_args!(
            "a transformation of tensors at trace level {place} of {}",
            levels.len()
        )),
    }
}

/// Returns whether a function is being recorded for compilation.
pub(crate) fn is_staging() -> bool {
    innermost_stage().is_some()
}
