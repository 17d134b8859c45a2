//! Runs a rule of an operation of another crate, and compares what it returns with the shape rule.

use std::any::Any;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

use pytree_kernels::base::dtype::AbstractArray;

use crate::tensor::Tensor;
use crate::tensor::trace::in_rule;

/// A rule of an operation, as messages name it.
pub(super) struct Rule {
    /// The name of the rule in messages.
    pub(super) name: &'static str,
    pub(super) operation: &'static str,
    /// The line that applied the operation.
    pub(super) line: &'static Location<'static>,
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            operation,
            line,
        } = self;
        write!(f, "the {name} rule of `{operation}` at {line}")
    }
}

impl Rule {
    /// Runs the rule. If it panics with a message that does not have the line, adds the rule to the message.
    pub(super) fn run<R>(&self, rule: impl FnOnce() -> R) -> R {
        // The panic continues, so nothing sees a state that the rule left.
        let outcome = catch_unwind(AssertUnwindSafe(|| in_rule(self.line, rule)));
        outcome.unwrap_or_else(|payload| match message(&*payload) {
            Some(message) if !message.contains(&self.line.to_string()) => {
                panic!("{self} panicked: {message}")
            }
            _ => resume_unwind(payload),
        })
    }

    /// Panics if the rule returned another number of values than expected, and otherwise if `mistake` finds mistakes, all of which
    /// the message lists.
    pub(super) fn check<F, E>(
        &self,
        what: &str,
        found: &[F],
        expected: &[E],
        mistake: impl Fn(&F, &E) -> Option<String>,
    ) {
        assert!(
            found.len() == expected.len(),
            "{self} returned {} {what}: expected {}",
            found.len(),
            expected.len()
        );
        let mistakes: Vec<String> = found
            .iter()
            .zip(expected)
            .enumerate()
            .filter_map(|(position, (found, expected))| {
                let mistake = mistake(found, expected)?;
                Some(format!("number {position} of the {what} is {mistake}"))
            })
            .collect();
        assert!(
            mistakes.is_empty(),
            "{self} returned wrong {what}: {}",
            mistakes.join("; ")
        );
    }
}

fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
}

/// Returns the difference between a value and the dtype and shape that it must have.
pub(super) fn different(found: &AbstractArray, expected: &AbstractArray) -> Option<String> {
    (found != expected).then(|| format!("{found}: expected {expected}"))
}

/// Returns the mistake of a tangent or cotangent of a value, or of an operand that is known and has no cotangent.
pub(super) fn not_derivative(found: Option<&Tensor>, of: Option<&AbstractArray>) -> Option<String> {
    let found = found?.info();
    match of {
        None => Some(format!(
            "{found}: expected `None` for an operand with a known value"
        )),
        Some(of) if !of.dtype.is_float() => Some(format!(
            "{found}: expected `None` for {of}, which is not a float"
        )),
        Some(of) => different(found, of),
    }
}

/// Returns the mistake of the result of a batching rule.
pub(super) fn not_examples(
    found: &AbstractArray,
    axis: Option<usize>,
    example: &AbstractArray,
    size: usize,
) -> Option<String> {
    let mut expected = example.clone();
    match axis {
        None => {}
        Some(axis) if axis <= example.rank() => expected.shape.insert(axis, size),
        Some(axis) => {
            return Some(format!(
                "{found} with the batch axis {axis}: expected a batch axis from 0 to {} for {example} of each example",
                example.rank()
            ));
        }
    }
    (*found != expected).then(|| {
        let axis = axis.map_or_else(
            || "without a batch axis".to_owned(),
            |axis| format!("with the batch axis {axis}"),
        );
        format!(
            "{found} {axis}: expected {expected}, because each of {size} examples has {example}"
        )
    })
}
