//! The way in which a trace level interprets operations, and the data that a level stores.

use std::cell::RefCell;
use std::rc::Rc;

use pytree_core::level::{Level, LevelKind};

use super::recorder::Recorder;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Builder;
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
    pub(super) fn of_level(&self) -> (&'static str, LevelKind) {
        match self {
            Self::Jvp | Self::Tape(_) => ("grad", LevelKind::Running),
            Self::Batch(_) => ("vmap", LevelKind::Running),
            Self::Stage(_, recorder) => (recorder.name(), recorder.level_kind()),
        }
    }

    /// Returns whether this interpreter records a function with a custom derivative rule.
    pub(super) fn has_rule(&self) -> bool {
        matches!(
            self,
            Self::Stage(_, Recorder::CustomJvp | Recorder::CustomVjp)
        )
    }
}

/// The data that a trace level stores on the stack of levels.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) interpreter: Interpreter,
    /// The position of the level that was innermost when this level began.
    pub(super) below: Option<usize>,
    /// The keys of the random streams that were created inside of this level. `None` if the level is not a `vmap` of
    /// the user.
    pub(super) created_keys: Option<CreatedKeys>,
}

impl Content {
    /// Returns the data of a trace level, or `None` if no transformation of tensors began the level.
    pub(super) fn of(level: &Level) -> Option<&Self> {
        level.content().downcast_ref()
    }
}

/// The keys of the streams that were created inside of a `vmap`. The list keeps the keys alive, so no handle is reused.
pub(super) type CreatedKeys = RefCell<Vec<Tensor>>;
