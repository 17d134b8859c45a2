//! Warnings about compiled functions that are traced too often, for instance because a source line builds a new
//! compiled function for every call.

use std::any::TypeId;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

use pytree_core::error::{Difference, DifferenceKind};

use crate::base::warning::{WarningKind, warn};
use crate::transformations::retrace::{Retrace, RetraceDifference};

/// A source line that builds and traces this many functions of one type causes a warning.
const MANY_BUILT: usize = 32;

/// Each time the number of traces of a function reaches a multiple of this number, a check warns if most calls trace it
/// again.
const MANY_TRACES: usize = 16;

/// The source line that builds a compiled function, and the type of the function. A line in a generic function builds
/// functions of several types.
type Built = (&'static Location<'static>, TypeId);

/// For each source line and type of function, the number of compiled functions that the line has built and that were
/// traced.
static BUILT: LazyLock<Mutex<HashMap<Built, usize>>> = LazyLock::new(Mutex::default);

/// Counts the first trace of a function that was built at `line`. Warns if this line has built many functions of the
/// same type.
pub(crate) fn traced_first(line: &'static Location<'static>, function: TypeId) {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let count = built.entry((line, function)).or_insert(0);
    *count += 1;
    let is_many = *count >= MANY_BUILT;
    drop(built);
    if is_many {
        warn(WarningKind::Rebuilt, line, || {
            format!(
                "`jit` at {line} has built {MANY_BUILT} functions, and each was traced anew; build it once, outside of the loop or as a field of a struct, and call it often"
            )
        });
    }
}

/// Warns if most calls of a function trace it again. `calls` includes the current call.
pub(crate) fn traced_again(traces: usize, calls: u64, why: &Retrace) {
    if traces.is_multiple_of(MANY_TRACES) && traces as u64 * 2 > calls {
        warn(WarningKind::Retraced, why.line, || {
            let (changed, fix) = match why.differences.as_slice() {
                [] => ("its arguments differ in a static value".to_owned(), STATIC),
                [first, ..] => (first.to_string(), fix(first)),
            };
            format!(
                "`jit` at {} has traced its function {traces} times in {calls} calls, the last time because of this change: {changed}; {fix}",
                why.line
            )
        });
    }
}

const STATIC: &str = "a static value is part of the structure, so each new value is traced anew: keep a value that changes in each call as a `Tensor`, such as a step counter in a field `#[state] step: Tensor`, created by `Tensor::from(0)`";

/// Returns how to avoid a retrace.
fn fix(difference: &RetraceDifference) -> &'static str {
    match difference {
        RetraceDifference::Structure(Difference {
            why: DifferenceKind::Static,
            ..
        }) => STATIC,
        RetraceDifference::Structure(_) => {
            "a value that grows is traced anew each time: clear what is collected, such as sown values, or keep arrays of one size"
        }
        RetraceDifference::Leaf { .. } => {
            "each new shape is traced anew: pad the arrays to a few shapes"
        }
        RetraceDifference::BatchAxis { .. } => {
            "each new length of the batch is traced anew: pad the batches to a few lengths"
        }
        RetraceDifference::Captured => {
            "a captured reference may have changed, so each call traces the function: pass the reference as an argument"
        }
    }
}
