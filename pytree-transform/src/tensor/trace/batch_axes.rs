//! The names of batch axes: which level binds one, and what depends on its length.

use pytree_core::level::{Level, with_levels};

use crate::base::axis_names::AxisName;
use crate::base::dtype::AbstractArray;
use crate::base::error::TensorError;
use crate::tensor::primitive::{BatchAxis, Primitive};
use crate::tensor::trace::{Content, Interpreter, innermost_stage};

/// The level that an operation over named axes goes to if no operand is from one above: the innermost that binds
/// one of its names, or one above that which records for compilation.
pub(super) fn level_of(names: &[AxisName]) -> Option<usize> {
    let levels = names.iter().filter_map(binder).map(|(level, _)| level);
    levels.max().max(innermost_stage())
}

/// The name that a level binds, with the length of its batch axis.
fn binding(level: &Level) -> Option<(&AxisName, usize)> {
    match &Content::of(level)?.interpreter {
        Interpreter::Batch(BatchAxis { name, size }) => name.as_ref().map(|name| (name, *size)),
        _ => None,
    }
}

/// The innermost level that binds the name of a batch axis, and the length of the axis.
fn binder(name: &AxisName) -> Option<(usize, usize)> {
    with_levels(|levels| {
        let mut levels = levels.iter().enumerate().rev();
        levels.find_map(|(place, level)| match binding(level)? {
            (bound, size) if bound == name => Some((place, size)),
            _ => None,
        })
    })
}

/// The length of the batch axis of a name, if it is bound.
pub(crate) fn bound_length(name: &AxisName) -> Option<usize> {
    binder(name).map(|(_, length)| length)
}

/// As [`bound_length`]; what is being recorded under the batch axis depends on it from now on.
///
/// # Errors
/// [`TensorError::UnboundAxis`] with the names that are bound.
pub(crate) fn axis_length(operation: &'static str, name: &AxisName) -> Result<usize, TensorError> {
    let Some((level, length)) = binder(name) else {
        return Err(TensorError::UnboundAxis {
            operation,
            name: name.to_string(),
            bound: bound_names(),
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

/// Fails if a primitive works over a batch axis that is not bound, or that has another length than the primitive is for.
///
/// # Errors
/// [`TensorError::UnboundAxis`] or [`TensorError::Shape`].
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
                    "the batch axis `{name}` has length {found}, and the operation was recorded for {expected}"
                ),
                "record the function again where it is called",
            ));
        }
    }
    Ok(())
}

/// The names of batch axes that are bound, innermost first.
fn bound_names() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    with_levels(|levels| {
        for (name, _) in levels.iter().rev().filter_map(binding) {
            if !names.iter().any(|known| **known == **name) {
                names.push(name.to_string());
            }
        }
    });
    names
}
