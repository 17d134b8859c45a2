//! Warns about source lines that build a new compiled function for every call.

use std::any::TypeId;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

use pytree_core::error::{Difference, DifferenceKind};

use crate::base::warning::{WarningKind, warn};
use crate::transformations::retrace::{Retrace, RetraceDifference};

/// How many functions of one type a source line may build and trace before a warning.
const MANY_BUILT: usize = 32;

/// How many traces of one function are checked for a common reason.
const MANY_TRACES: usize = 16;

/// A function that a source line builds. A generic function has one line for all types, and builds a function of
/// another type for each.
type Built = (&'static Location<'static>, TypeId);

/// For each line and type, how many of the compiled functions it built were traced.
static BUILT: LazyLock<Mutex<HashMap<Built, usize>>> = LazyLock::new(Mutex::default);

/// Counts the first trace of a function of a type that this line built. Warns if the line has built many of them.
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

/// Warns if most calls of a function trace it again. `calls` includes the call that traces.
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
