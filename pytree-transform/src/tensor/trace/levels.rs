//! The trace levels of running code: a transformation in progress is a level, and a place creates and reads its tensors.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use pytree_base::bug::bug;
use pytree_core::level::{Level, TraceLevel, with_levels};
use pytree_kernels::base::dtype::AbstractArray;

use super::interpreter::{Content, CreatedKeys, Interpreter};
use super::tracer::{LevelHandle, Payload, Tracer, mixed};
use crate::base::error::TensorError;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Variable;
use crate::tensor::primitive::BatchAxis;

thread_local! {
    /// The innermost trace level that running code can use. While a rule runs, this is a level below the level of the
    /// rule.
    pub(super) static INNERMOST: Cell<Option<usize>> = const { Cell::new(None) };
    /// The number of levels that record functions with custom derivative rules.
    static WITH_RULES: Cell<usize> = const { Cell::new(0) };
    /// Whether the innermost level that records for compilation records operations on other tensors, too.
    static RECORDING_ALL: Cell<bool> = const { Cell::new(false) };
}

/// A transformation in progress. Dropping this value removes its trace level.
#[derive(Debug)]
pub(crate) struct Trace {
    place: LevelHandle,
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
        let place = LevelHandle {
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
    type Target = LevelHandle;
    fn deref(&self) -> &LevelHandle {
        &self.place
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        INNERMOST.set(self.below);
        WITH_RULES.set(WITH_RULES.get() - usize::from(self.has_rule));
    }
}

impl LevelHandle {
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
    pub(super) fn payload<'t>(
        &self,
        tensor: &'t Tensor,
    ) -> Result<Option<&'t Payload>, TensorError> {
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

/// Checks that the transformation of a tracer is still in progress on this thread.
pub(super) fn check_alive(tracer: &Tracer, operation: &'static str) -> Result<(), TensorError> {
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
pub(super) fn innermost_stage() -> Option<usize> {
    innermost(|interpreter| matches!(interpreter, Interpreter::Stage(..)))
}

/// Returns the innermost level that records a function with a custom rule. This level records all operations on traced
/// tensors. So the function captures the same traced tensors as the rule. Without the recording, the function would
/// capture values that the function computes from these tensors.
pub(super) fn innermost_with_rule() -> Option<usize> {
    if WITH_RULES.get() == 0 {
        return None;
    }
    innermost(Interpreter::has_rule)
}

/// A guard during which all operations are recorded; see [`recording_all`].
pub(crate) struct RecordingAll;

impl Drop for RecordingAll {
    fn drop(&mut self) {
        RECORDING_ALL.set(false);
    }
}

/// Makes the innermost level that records for compilation record all operations, until the guard is dropped.
#[must_use]
pub(crate) fn recording_all() -> RecordingAll {
    RECORDING_ALL.set(true);
    RecordingAll
}

/// Returns the level that records all operations, also on tensors of levels below it and on untraced ones. Returns `None` if such
/// operations run at their own level.
#[inline]
pub(super) fn recording_level() -> Option<usize> {
    RECORDING_ALL.get().then(innermost_stage).flatten()
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

/// Returns whether a transformation is in progress on this thread.
pub(crate) fn is_transforming() -> bool {
    with_levels(|levels| !levels.is_empty())
}
