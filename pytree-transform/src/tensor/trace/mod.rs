//! Traces: the stack of interpreters, and where an operation goes.
//!
//! Each transformation in progress on this thread is a level of a stack. An operation goes to the
//! innermost level among its operands; there a rule of its primitive turns it into operations of the
//! levels below. A level is removed by a guard, so a panic leaves the thread usable, and a traced tensor
//! that outlived its level is recognised by the level's number, which is never used twice.
//!
//! An operation over a named batch axis goes to the innermost level that binds the name, also if no operand is
//! batched there; levels above it see the operation first.

mod batch_axes;
mod bind;
mod lines;
mod recorder;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pytree_core::level::{LevelKind, TraceLevel};

pub(crate) use self::batch_axes::{axis_length, bound_length};
pub(crate) use self::bind::{bind, bind_one, check_creation};
pub(crate) use self::lines::{at_line, at_line_by_default, at_own_lines, current_line};
pub(crate) use self::recorder::Recorder;
use crate::base::dtype::AbstractArray;
use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Builder, Variable};
use crate::tensor::primitive::BatchAxis;

/// The number of one running transformation; never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(u64);

/// What a level of the stack does with an operation.
#[derive(Clone, Debug)]
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
                    interpreter: Interpreter::Stage(_, recorder),
                    ..
                }) if *id == self.id => recorder.name(),
                _ => Recorder::Jit.name(),
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

/// Whether something records for compilation.
pub(crate) fn is_staging() -> bool {
    innermost_stage().is_some()
}
