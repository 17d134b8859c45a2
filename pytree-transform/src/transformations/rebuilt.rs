//! Warnings about compiled functions that are traced too often, for instance because a source line builds a new
//! compiled function for every call.

use std::any::TypeId;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

use pytree_core::error::{Difference, DifferenceKind};

use crate::base::warning::{WarningKind, warn};
use crate::transformations::function::Origin;
use crate::transformations::retrace::{Retrace, RetraceDifference};

/// A source line that builds and traces this many functions of one type causes a warning.
const MANY_BUILT: usize = 32;

/// Each time the number of traces of a function reaches a multiple of this number, a check warns if most calls trace
/// the function again.
const MANY_TRACES: usize = 16;

/// The source line that builds a compiled function, and the type of the function. A line in a generic function builds
/// functions of several types.
type Built = (&'static Location<'static>, TypeId);

/// For each source line and type of function, the number of compiled functions that the line has built and that were
/// traced.
static BUILT: LazyLock<Mutex<HashMap<Built, usize>>> = LazyLock::new(Mutex::default);

/// Counts the first trace of a compiled function. Warns if the line that built this function has built many functions
/// of the same type.
pub(crate) fn traced_first(Origin { name, line }: Origin, function: TypeId) {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let count = built.entry((line, function)).or_insert(0);
    *count += 1;
    let is_many = *count >= MANY_BUILT;
    drop(built);
    if is_many {
        warn(WarningKind::Rebuilt, line, || {
            format!(
                "`{name}` at {line} has created {MANY_BUILT} compiled functions, and each of them was traced; call `{name}` once, outside of the loop or for a field of a struct, and call the compiled function often"
            )
        });
    }
}

/// Warns if most calls of a function trace it again. `calls` includes the current call.
pub(crate) fn traced_again(
    Origin { name, line }: Origin,
    traces: usize,
    calls: u64,
    why: &Retrace,
) {
    if traces.is_multiple_of(MANY_TRACES) && traces as u64 * 2 > calls {
        warn(WarningKind::Retraced, line, || {
            let (changed, fix) = match why.differences.as_slice() {
                [] => ("its arguments differ in a static value".to_owned(), STATIC),
                [first, ..] => (first.to_string(), fix(first)),
            };
            format!(
                "`{name}` at {line} has traced its function {traces} times in {calls} calls, the last time because of this change: {changed}; {fix}"
            )
        });
    }
}

const STATIC: &str = "a static value is part of the structure, so the function is traced again for each new value: store a value that changes with each call in a `Tensor`, for instance a step counter in the field `#[state] step: Tensor`, initialized with `Tensor::from(0)`";

/// Returns how to avoid a retrace.
fn fix(difference: &RetraceDifference) -> &'static str {
    match difference {
        RetraceDifference::Structure(Difference {
            why: DifferenceKind::Static,
            ..
        }) => STATIC,
        RetraceDifference::Structure(_) => {
            "the function is traced again for each new structure: remove collected values, such as sown values, before each call, or use arrays of a fixed size"
        }
        RetraceDifference::Leaf { .. } => {
            "the function is traced again for each new shape: pad the arrays, so that only a few shapes occur"
        }
        RetraceDifference::BatchAxis { .. } => {
            "the function is traced again for each new length of the batch: pad the batches, so that only a few lengths occur"
        }
        RetraceDifference::Captured => {
            "a captured reference may have changed, so each call traces the function: pass the reference as an argument"
        }
    }
}
