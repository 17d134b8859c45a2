//! Traced tensors: the data that a trace level stores for a tensor.

use pytree_base::bug::bug;
use pytree_core::level::LevelId;
use pytree_core::{Leaf as _, MappedAxis};
use pytree_kernels::base::dtype::AbstractArray;

use super::recorder::Recorder;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Variable;

/// The data of a traced tensor: its trace level, and the data that the level stores for the tensor. A traced tensor has
/// no array.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Tracer {
    /// This field must be the first field of the struct. See `Array` for the reason.
    pub(crate) info: AbstractArray,
    pub(super) place: LevelHandle,
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
    pub(super) fn transformation(&self) -> &'static str {
        match self {
            Self::Jvp { .. } | Self::Tape(_) => "grad",
            Self::Batch { .. } => "vmap",
            Self::Stage(_, recorder) => recorder.name(),
        }
    }

    /// Returns the tensor's variable in the jaxpr that its level records.
    pub(super) fn variable(&self) -> Variable {
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

/// Reports a bug: the data of a tensor do not belong to the transformation of its trace level.
#[cold]
#[track_caller]
pub(super) fn mixed(expected: &str, found: &Payload) -> ! {
    let found = found.transformation();
    bug(format_args!(
        "a tensor that stores {expected} at its trace level, found a tensor of `{found}`"
    ))
}

/// A handle of a trace level, which creates and reads the traced tensors of this level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelHandle {
    pub(super) level: usize,
    pub(super) id: LevelId,
}
