//! The names of batch axes: which level binds one, and what depends on its length.

use crate::base::axis_names::AxisName;
use crate::base::error::TensorError;
use crate::tensor::primitive::BatchAxis;
use crate::tensor::trace::{Interpreter, LEVELS, innermost_stage};

/// The level that an operation over named axes goes to if no operand is from one above: the innermost that binds
/// one of its names, or one above that which records for compilation.
pub(super) fn level_of(names: &[AxisName]) -> Option<usize> {
    let levels = names.iter().filter_map(binder);
    levels.max().max(innermost_stage())
}

/// The innermost level that binds the name of a batch axis.
fn binder(name: &AxisName) -> Option<usize> {
    LEVELS.with_borrow(|levels| {
        levels.iter().rposition(
            |level| matches!(&level.interpreter, Interpreter::Batch(BatchAxis { name: Some(bound), .. }) if bound == name),
        )
    })
}

/// The length of the batch axis of a name, if it is bound.
pub(crate) fn bound_length(name: &AxisName) -> Option<usize> {
    let level = binder(name)?;
    LEVELS.with_borrow(|levels| match &levels.get(level)?.interpreter {
        Interpreter::Batch(batch) => Some(batch.size),
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
            if let Interpreter::Batch(BatchAxis {
                name: Some(name), ..
            }) = &level.interpreter
                && !names.iter().any(|known| **known == **name)
            {
                names.push(name.to_string());
            }
        }
    });
    names
}
