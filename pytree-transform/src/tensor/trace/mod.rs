//! Traces: how a transformation interprets operations at its level, and which level interprets an operation.
//!
//! Each transformation in progress on this thread is a level of the stack in `pytree_core::level`. The level holds the
//! transformation's interpreter. The innermost level among the operands interprets an operation: a rule of the
//! primitive turns the operation into operations of lower levels. A guard removes the level, so a panic leaves the
//! thread usable. A traced tensor that outlives its level is recognised by the level's number, which is never reused.
//!
//! The innermost level that binds the name of a batch axis interprets operations over this axis, even if no operand is
//! batched there. Higher levels interpret the operation first.

mod batch_axes;
mod bind;
mod lines;
mod recorder;
mod stand_ins;
mod streams;

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use pytree_core::level::{Level, LevelId, LevelKind, TraceLevel, with_levels};

pub(crate) use self::batch_axes::{axis_length, bound_length};
pub(crate) use self::bind::{bind, bind_one, check_creation};
pub(crate) use self::lines::{at_line, at_line_by_default, at_own_lines, current_line};
pub(crate) use self::recorder::Recorder;
pub(crate) use self::stand_ins::{Captured, standing_in};
use self::streams::CreatedKeys;
pub(crate) use self::streams::{is_same_for_all_examples, note_created_key};
use crate::base::dtype::AbstractArray;
use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Builder, Variable};
use crate::tensor::primitive::BatchAxis;
use pytree_core::bug::bug;

/// The way in which a trace level interprets operations.
#[derive(Debug)]
pub(crate) enum Interpreter {
    /// Computes the tangents of the results, too.
    Jvp,
    /// Batches operations. Collectives refer to the batch axis by its name, if it has a name.
    Batch(BatchAxis),
    /// Records operations on tangents for transposition.
    Tape(Rc<RefCell<Builder>>),
    /// Records operations for compilation, including creations.
    Stage(Rc<RefCell<Builder>>, Recorder),
}

impl Interpreter {
    /// Returns the name of the transformation for messages, and the kind of its trace level. A function that is
    /// recorded for later calls must not contain the current values of references.
    fn of_level(&self) -> (&'static str, LevelKind) {
        match self {
            Self::Jvp | Self::Tape(_) => ("grad", LevelKind::Running),
            Self::Batch(_) => ("vmap", LevelKind::Running),
            Self::Stage(_, recorder) => (recorder.name(), recorder.level_kind()),
        }
    }

    /// Returns whether a function with a rule is being recorded.
    fn has_rule(&self) -> bool {
        matches!(
            self,
            Self::Stage(_, Recorder::CustomJvp | Recorder::CustomVjp)
        )
    }
}

/// The data that a trace level stores on the stack.
#[derive(Debug)]
struct Content {
    interpreter: Interpreter,
    /// The level that was innermost when this level began.
    below: Option<usize>,
    /// The keys of random streams created inside, if the level is a `vmap` of the user.
    created_keys: Option<CreatedKeys>,
}

impl Content {
    /// Returns the data of a level, or `None` if no transformation of tensors began the level.
    fn of(level: &Level) -> Option<&Self> {
        level.content().downcast_ref()
    }
}

/// A tensor that is traced by a transformation.
#[derive(Debug)]
pub(crate) struct Tracer {
    place: Place,
    pub(crate) info: AbstractArray,
    pub(crate) payload: Payload,
}

/// The data that a trace level stores for a tensor.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// The value and its tangent. A tangent of `None` means zeros.
    Jvp {
        primal: Tensor,
        tangent: Option<Tensor>,
    },
    /// The values of all examples, and their batch axis.
    Batch { value: Tensor, axis: usize },
    /// A variable of the jaxpr that is being recorded.
    Tape(Variable),
    /// A variable of the jaxpr that is being recorded, and the function that records it.
    Stage(Variable, Recorder),
}

impl Payload {
    /// Returns the name of the transformation for messages.
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
    /// Returns the name of the transformation for messages.
    pub(crate) fn transformation(&self) -> &'static str {
        self.payload.transformation()
    }
}

/// Returns whether a transformation is in progress on this thread.
pub(crate) fn is_transforming() -> bool {
    with_levels(|levels| !levels.is_empty())
}

/// Returns whether operations on these tangents are recorded for transposition. In this case a separate operation must
/// compute each value that does not depend on the tangents, so that the value is not recorded.
pub(crate) fn on_tape(mut tangents: impl Iterator<Item = Tensor>) -> bool {
    tangents.any(|tangent| {
        tangent
            .tracer()
            .is_some_and(|tracer| matches!(tracer.payload, Payload::Tape(_)))
    })
}

thread_local! {
    /// The innermost trace level that running code can use. While a rule runs, this is below the level of the rule.
    static INNERMOST: Cell<Option<usize>> = const { Cell::new(None) };
    /// The number of levels that record functions with rules.
    static WITH_RULES: Cell<usize> = const { Cell::new(0) };
}

/// A handle to a level, which makes and reads the tensors of this level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    level: usize,
    id: LevelId,
}

/// A transformation in progress. Its level is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Trace {
    place: Place,
    below: Option<usize>,
    has_rule: bool,
    /// Removes the level from the stack when dropped.
    _level: TraceLevel,
}

impl Trace {
    /// Begins a transformation.
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
    /// Makes a tensor of this level.
    pub(crate) fn tensor(&self, info: AbstractArray, payload: Payload) -> Tensor {
        Tensor::traced(Arc::new(Tracer {
            place: *self,
            info,
            payload,
        }))
    }

    /// Makes a tensor of this level with a value and a tangent.
    pub(crate) fn dual(&self, primal: Tensor, tangent: Option<Tensor>) -> Tensor {
        self.tensor(primal.info().clone(), Payload::Jvp { primal, tangent })
    }

    /// Makes a tensor of this level from the values of all examples and their batch axis.
    pub(crate) fn batched(&self, value: Tensor, axis: usize) -> Tensor {
        let mut info = value.info().clone();
        info.shape.remove(axis);
        self.tensor(info, Payload::Batch { value, axis })
    }

    /// Returns the data of this level for a tensor, or `None` if the tensor is from a lower level.
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

    /// Returns the variable of a tensor in the jaxpr that this level records, or `None` if the tensor is from a lower
    /// level.
    ///
    /// # Errors
    /// Returns [`TensorError::Escaped`] if the transformation of the tensor has finished.
    pub(crate) fn variable(&self, tensor: &Tensor) -> Result<Option<Variable>, TensorError> {
        Ok(self.payload(tensor)?.map(Payload::variable))
    }

    /// Returns the value and the tangent of a tensor at this level.
    pub(crate) fn undual(&self, tensor: &Tensor) -> Result<(Tensor, Option<Tensor>), TensorError> {
        Ok(match self.payload(tensor)? {
            Some(Payload::Jvp { primal, tangent }) => (primal.clone(), tangent.clone()),
            Some(other) => mixed("a value and its tangent", other),
            None => (tensor.clone(), None),
        })
    }

    /// Returns the values of all examples of a tensor at this level, and their batch axis.
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

/// Checks that the tracer's level is running on this thread.
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

/// Returns the innermost level that records for compilation. It records creations, because a jitted `zeros` would
/// otherwise become a stored constant, and effects, because they would otherwise happen during recording.
fn innermost_stage() -> Option<usize> {
    innermost(|interpreter| matches!(interpreter, Interpreter::Stage(..)))
}

/// Returns the innermost level that records a function with a rule. It records all operations on traced tensors, so the
/// function captures each traced tensor as its rule does, and not what it computes from that tensor.
fn innermost_with_rule() -> Option<usize> {
    if WITH_RULES.get() == 0 {
        return None;
    }
    innermost(Interpreter::has_rule)
}

/// Returns the innermost level for the running code that interprets operations so.
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

/// Returns the content of a level that a transformation of tensors began.
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
