//! Checks that find the origin of NaN and infinities. Each result of an operation is checked as soon as it is computed.
//!
//! A NaN may be intended: the library and its users write NaN as a constant, for the case that an index or a label is out of
//! range, and select it only in this case. So an operation that computes nothing is never to blame for a NaN that its operands
//! already have: it creates a constant, or moves elements. A NaN is reported when an operation computes with it or selects it.

mod origins;

use std::cell::Cell;
use std::fmt::Display;
use std::panic::Location;
use std::sync::LazyLock;

use pytree_base::platform;
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::loops::elementwise::Elementwise;

use crate::base::error::TensorError;
use crate::tensor::checks::origins::{Origin, Origins};
use crate::tensor::evaluation;
use crate::tensor::primitive::{Outputs, Primitive};

/// The kinds of values that results must not contain: NaN, infinities, both, or neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checks {
    nans: bool,
    infs: bool,
}

impl Checks {
    pub(crate) fn any(self) -> bool {
        self.nans || self.infs
    }

    pub(crate) fn with_nans(self) -> Self {
        Self { nans: true, ..self }
    }

    pub(crate) fn with_infs(self) -> Self {
        Self { infs: true, ..self }
    }

    /// Runs a function with these checks added to the checks that are already active.
    pub(crate) fn within<R>(self, function: impl FnOnce() -> R) -> R {
        struct Restore(Checks);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHECKS.set(self.0);
            }
        }
        let before = CHECKS.get();
        let _restore = Restore(before);
        CHECKS.set(Self {
            nans: before.nans || self.nans,
            infs: before.infs || self.infs,
        });
        function()
    }

    /// Returns the checks that environment variables turn on.
    fn of_environment() -> Self {
        static CHECKS: LazyLock<Checks> = LazyLock::new(|| Checks {
            nans: platform::flag("PYTREE_DEBUG_NANS").unwrap_or(false),
            infs: platform::flag("PYTREE_DEBUG_INFS").unwrap_or(false),
        });
        *CHECKS
    }
}

thread_local! {
    static CHECKS: Cell<Checks> = Cell::new(Checks::of_environment());
}

/// Runs a function, and panics if one of its operations returns NaN. The message names the operation and its source
/// line, and summarises its operands. If an operand has infinities, the message also names the operation in which they began:
/// a NaN of a backward pass is often an infinity times zero. While the check is active, compiled functions run operation by
/// operation.
///
/// Under `vmap`, a NaN in a branch of a `cond` or `switch` is reported only for an example that takes the branch, where its result is selected.
///
/// A constant NaN is allowed until an operation computes with it or selects it. So a function may write NaN for the case that,
/// for instance, an index is out of range.
///
/// The check applies to this thread. The environment variable `PYTREE_DEBUG_NANS=1` activates the check for the whole
/// program. [`Jit::check_nans`](crate::Jit::check_nans) activates the check for one compiled function. The counterpart
/// in JAX is `jax.debug_nans`.
///
/// # Examples
/// ```
/// use std::panic::{AssertUnwindSafe, catch_unwind};
/// use pytree_transform::{Tensor, debug_nans, jit};
/// let f = jit(|x: Tensor| (x.log() + 1.0).sum());
/// let x = Tensor::from([1.0_f32, -1.0]);
/// assert!(f(x.clone()).item::<f32>().is_nan());
/// let checked = AssertUnwindSafe(|| debug_nans(|| f(x)));
/// let message = *catch_unwind(checked).unwrap_err().downcast::<String>().unwrap();
/// assert!(message.contains("returned NaN in 1 of 2 elements: b:f32[2] = log a"), "{message}");
/// assert!(message.contains("operand 0 is f32[2] with values from -1 to 1"), "{message}");
/// ```
///
/// # Panics
/// Panics if a result contains NaN.
#[doc(alias("jax.debug_nans", "torch.autograd.set_detect_anomaly"))]
pub fn debug_nans<R>(function: impl FnOnce() -> R) -> R {
    Checks::default().with_nans().within(function)
}

/// Runs a function, and panics if one of its operations returns an infinity. This check works like [`debug_nans`]. The
/// environment variable is `PYTREE_DEBUG_INFS`, and the counterpart in JAX is `jax.debug_infs`.
///
/// # Examples
/// ```should_panic
/// use pytree_transform::{Tensor, debug_infs};
/// debug_infs(|| Tensor::from(1.0_f32) / Tensor::from(0.0_f32));
/// ```
///
/// # Panics
/// Panics if a result contains an infinity.
#[doc(alias = "jax.debug_infs")]
pub fn debug_infs<R>(function: impl FnOnce() -> R) -> R {
    Checks::default().with_infs().within(function)
}

thread_local! {
    /// Whether a function runs for examples that do not reach it.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function for all examples of a batch, of which some do not reach it. A NaN is not reported in the function, but where a
/// result of an example that does reach it is selected. Its origin is remembered.
pub(crate) fn quietly<R>(function: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_QUIET.set(self.0);
        }
    }
    let _restore = Restore(IS_QUIET.replace(true));
    function()
}

/// Returns whether any check of results is active on this thread.
pub(crate) fn active() -> bool {
    CHECKS.get().any()
}

/// A summary of the elements of an array: the number of NaNs, the number of infinite elements, and the range of the
/// other elements.
struct Summary {
    nans: usize,
    infs: usize,
    range: Option<(f64, f64)>,
}

impl Summary {
    fn of(array: &Array) -> Self {
        let mut summary = Self {
            nans: 0,
            infs: 0,
            range: None,
        };
        for x in array.data().to_f64() {
            if x.is_nan() {
                summary.nans += 1;
            } else if x.is_infinite() {
                summary.infs += 1;
            } else {
                let (least, greatest) = summary.range.unwrap_or((x, x));
                summary.range = Some((least.min(x), greatest.max(x)));
            }
        }
        summary
    }

    /// Describes an operand, with the operations in which its NaNs and infinities began.
    fn describe(&self, position: usize, array: &Array) -> String {
        let range = match self.range {
            None => String::new(),
            Some((least, greatest)) if least.to_bits() == greatest.to_bits() => {
                format!(" with the value {least}")
            }
            Some((least, greatest)) => format!(" with values from {least} to {greatest}"),
        };
        let origins = Origins::of(array);
        let with = |count: usize, what: &str, origin: Option<Origin>| match (count, origin) {
            (0, _) => String::new(),
            (count, None) => format!(", elements already {what}: {count}"),
            (count, Some(origin)) => {
                format!(", elements already {what}: {count}, which began in {origin}")
            }
        };
        let nans = with(self.nans, "NaN", origins.nans);
        let infs = with(self.infs, "infinite", origins.infs);
        format!("operand {position} is {}{range}{nans}{infs}", array.info)
    }
}

/// Returns whether a primitive computes no element: it creates a constant, moves elements, or runs bodies, whose operations are
/// checked themselves. A selection between equal arrays, which stops gradients, moves elements, too.
fn computes_nothing(primitive: &dyn Primitive, operands: &Operands) -> bool {
    let bits = |array: &Array| -> Vec<u64> {
        let elements = array.data().to_f64().into_iter();
        elements.map(f64::to_bits).collect()
    };
    let is_select = matches!(primitive.elementwise(), Some(Elementwise::Select))
        && bits(&operands[1]) != bits(&operands[2]);
    operands.is_empty() || (primitive.accepts_narrow() && !is_select)
}

/// Evaluates a primitive. Returns the results if they pass the active checks. An error contains the text of the
/// equation. If `equation` is `None`, the text is made from the primitive.
pub(crate) fn evaluate(
    primitive: &dyn Primitive,
    operands: Operands,
    line: &'static Location<'static>,
    equation: Option<&dyn Display>,
) -> Result<Outputs<Array>, TensorError> {
    let results = evaluation::try_evaluate(primitive, operands.clone())?;
    let runs_bodies = !primitive.bodies().is_empty();
    for result in &results {
        if !result.dtype().is_float() {
            Origins::default().remember(result);
            continue;
        }
        let found = Summary::of(result);
        if found.nans + found.infs == 0 {
            Origins::default().remember(result);
            continue;
        }
        let given: Vec<Summary> = operands.iter().map(|array| Summary::of(array)).collect();
        let name = forbidden(&found, &given, computes_nothing(primitive, &operands));
        let Some((count, what)) = name.filter(|_| !runs_bodies && !IS_QUIET.get()) else {
            let here = Origin {
                operation: primitive.name(),
                line,
            };
            let began = if runs_bodies {
                Origins::newest()
            } else {
                Origins {
                    nans: Some(here),
                    infs: Some(here),
                }
            };
            origins(began, &found, &given, &operands).remember(result);
            continue;
        };
        let pairs = given.iter().zip(&operands).enumerate();
        let summaries: Vec<String> = pairs
            .map(|(position, (summary, operand))| summary.describe(position, operand))
            .collect();
        return Err(TensorError::NotFinite {
            operation: primitive.name(),
            line,
            what: format!("{what} in {count} of {} elements", result.info.len()).into(),
            equation: match equation {
                Some(equation) => equation.to_string(),
                None => written(primitive, result, &operands),
            }
            .into(),
            operands: if summaries.is_empty() {
                "the operation has no operands".to_owned()
            } else {
                summaries.join(", ")
            }
            .into(),
        });
    }
    Ok(results)
}

/// Returns the number of elements of a result that the active checks forbid, and what they are. `given` summarises the
/// operands.
fn forbidden(
    found: &Summary,
    given: &[Summary],
    computes_nothing: bool,
) -> Option<(usize, &'static str)> {
    let checks = CHECKS.get();
    let is_to_blame = |count: usize, of: fn(&Summary) -> usize| {
        let was_given = given.is_empty() || given.iter().any(|summary| of(summary) > 0);
        count > 0 && !(computes_nothing && was_given)
    };
    if checks.nans && is_to_blame(found.nans, |summary| summary.nans) {
        Some((found.nans, "NaN"))
    } else if checks.infs && is_to_blame(found.infs, |summary| summary.infs) {
        Some((found.infs, "an infinity"))
    } else {
        None
    }
}

/// Returns the origins of the NaNs and infinities of a result. If no operand has any, they are `began`.
fn origins(began: Origins, found: &Summary, given: &[Summary], operands: &Operands) -> Origins {
    let of_kind =
        |count: fn(&Summary) -> usize, origin: fn(Origins) -> Option<Origin>| -> Option<Origin> {
            if count(found) == 0 {
                return None;
            }
            let mut with = operands
                .iter()
                .zip(given)
                .filter(|(_, summary)| count(summary) > 0);
            match with.next() {
                None => origin(began),
                Some((operand, _)) => origin(Origins::of(operand)),
            }
        };
    Origins {
        nans: of_kind(|summary| summary.nans, |origins| origins.nans),
        infs: of_kind(|summary| summary.infs, |origins| origins.infs),
    }
}

/// Returns the text of an operation that belongs to no jaxpr. Dtypes and shapes replace the variables.
fn written(primitive: &dyn Primitive, result: &Array, operands: &Operands) -> String {
    let operands: Vec<String> = operands
        .iter()
        .map(|operand| operand.info.to_string())
        .collect();
    format!(
        "{} = {} {}",
        result.info,
        primitive.name(),
        operands.join(" ")
    )
}
