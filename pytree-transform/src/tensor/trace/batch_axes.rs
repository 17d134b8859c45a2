//! The names of batch axes. Finds the trace level that binds a name, and marks the recorded functions that depend on
//! the length of the axis.

use pytree_core::level::{Level, with_levels};
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::axis_names::AxisName;
use crate::base::error::TensorError;
use crate::tensor::primitive::{BatchAxis, Primitive};
use crate::tensor::trace::interpreter::{Content, Interpreter};
use crate::tensor::trace::levels::innermost_stage;

/// Returns the innermost trace level that binds one of the names or records for compilation. This level interprets an
/// operation over these batch axes, unless an operand belongs to a higher level.
pub(super) fn level_of(names: &[AxisName]) -> Option<usize> {
    let levels = names.iter().filter_map(binder).map(|(level, _)| level);
    levels.max().max(innermost_stage())
}

/// Returns the name of a batch axis that a trace level binds, and the length of the axis.
fn binding(level: &Level) -> Option<(&AxisName, usize)> {
    match &Content::of(level)?.interpreter {
        Interpreter::Batch(BatchAxis { name, size, .. }) => name.as_ref().map(|name| (name, *size)),
        _ => None,
    }
}

/// Returns the innermost trace level that binds a name, and the length of its batch axis.
fn binder(name: &AxisName) -> Option<(usize, usize)> {
    with_levels(|levels| {
        let mut levels = levels.iter().enumerate().rev();
        levels.find_map(|(place, level)| match binding(level)? {
            (bound, size) if bound == name => Some((place, size)),
            _ => None,
        })
    })
}

/// Returns the length of a named batch axis, if the name is bound.
pub(crate) fn bound_length(name: &AxisName) -> Option<usize> {
    binder(name).map(|(_, length)| length)
}

/// Returns the length of a named batch axis. Registers the dependence on the axis with each function that is being
/// recorded above the level that binds the name.
///
/// # Errors
/// Returns [`TensorError::UnboundAxis`] with all bound names if this name is not bound.
pub(crate) fn axis_length(operation: &'static str, name: &AxisName) -> Result<usize, TensorError> {
    let Some((level, length)) = binder(name) else {
        return Err(TensorError::UnboundAxis {
            operation,
            name: name.to_string(),
            bound: bound_names(false),
            mesh: bound_names(true),
        });
    };
    with_levels(|levels| {
        for above in levels[level + 1..].iter().filter_map(Content::of) {
            if let Interpreter::Stage(builder, _) | Interpreter::Tape(builder) = &above.interpreter
            {
                builder.borrow_mut().depend_on(name, length);
            }
        }
    });
    Ok(length)
}

/// Checks that each batch axis over which a primitive works is bound and has the length that the primitive expects.
///
/// # Errors
/// Returns [`TensorError::UnboundAxis`] if a name is not bound. Returns [`TensorError::Shape`] if a length differs.
#[cold]
pub(super) fn check_axes(
    primitive: &dyn Primitive,
    operands: &[&AbstractArray],
) -> Result<(), TensorError> {
    for name in primitive.axis_names() {
        let found = axis_length(primitive.name(), name)?;
        if let Some(expected) = primitive.axis_length().filter(|&length| length != found) {
            return Err(TensorError::shape(
                primitive.name(),
                operands,
                format!(
                    "the batch axis `{name}` has length {found}, but the operation was recorded for length {expected}"
                ),
                "record the function again under the `vmap` that calls it",
            ));
        }
    }
    Ok(())
}

/// Returns the bound names of batch axes, innermost first: those of `vmap`s, or those of the axes of a mesh.
fn bound_names(of_mesh: bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    with_levels(|levels| {
        for content in levels.iter().rev().filter_map(Content::of) {
            let Interpreter::Batch(batch) = &content.interpreter else {
                continue;
            };
            let name = batch.name.iter().find(|_| batch.is_mesh == of_mesh);
            if let Some(name) = name.filter(|name| !names.iter().any(|known| **known == ***name)) {
                names.push(name.to_string());
            }
        }
    });
    if of_mesh {
        // The first axis of a mesh is the outermost level.
        names.reverse();
    }
    names
}
