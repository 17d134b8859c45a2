//! The line of the user's program to which an operation belongs. Messages and jaxprs show this line.

use std::cell::Cell;
use std::panic::Location;

use crate::base::error::{TensorError, called_by_user, or_too_large};

thread_local! {
    static LINE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    /// Whether a rule of another crate runs, whose functions are not those of the user.
    static IN_RULE: Cell<bool> = const { Cell::new(false) };
}

/// A guard that attributes operations to the line of the operation whose rule runs.
pub(super) struct LineGuard(Option<&'static Location<'static>>);

impl LineGuard {
    pub(super) fn set(line: &'static Location<'static>) -> Self {
        Self(LINE.replace(Some(line)))
    }
}

impl Drop for LineGuard {
    fn drop(&mut self) {
        LINE.set(self.0);
    }
}

/// Returns the user's line of the operation whose rule runs, or the caller's line if no rule runs.
#[track_caller]
pub(crate) fn current_line() -> &'static Location<'static> {
    // In a closure, `Location::caller` would return the line of the closure.
    match LINE.get() {
        Some(line) => line,
        None => Location::caller(),
    }
}

/// Returns the user's line of the operation whose rule runs, or `None` if no rule runs.
pub(crate) fn known_line() -> Option<&'static Location<'static>> {
    LINE.get()
}

/// Runs `function` and attributes its operations to `line`.
pub(crate) fn at_line<R>(line: &'static Location<'static>, function: impl FnOnce() -> R) -> R {
    let _line = LineGuard::set(line);
    function()
}

/// Runs `function` and attributes its operations to `line`. If an outer call already attributes operations to a line,
/// keeps this line.
pub(crate) fn at_line_by_default<R>(
    line: &'static Location<'static>,
    function: impl FnOnce() -> R,
) -> R {
    let _line = LineGuard::set(LINE.get().unwrap_or(line));
    function()
}

impl TensorError {
    /// Runs a function of other operations, which may panic. Returns an error if the system refuses memory to one of them.
    #[doc(hidden)]
    #[track_caller]
    pub fn composed<R>(
        operation: &'static str,
        function: impl FnOnce() -> Result<R, Self>,
    ) -> Result<R, Self> {
        let line = current_line();
        or_too_large(|| operation, || at_line(line, function))
    }
}

/// Runs the rule of a primitive that another crate defines, and attributes its operations to `line`, also those of functions that
/// the rule transforms or repeats.
pub(crate) fn in_rule<R>(line: &'static Location<'static>, rule: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_RULE.set(self.0);
        }
    }
    let _outer = Restore(IN_RULE.replace(true));
    at_line(line, rule)
}

/// Runs a function of the user. Attributes each operation to the line that calls it.
pub(crate) fn at_own_lines<R>(function: impl FnOnce() -> R) -> R {
    if IN_RULE.get() {
        return function();
    }
    let _line = LineGuard(LINE.replace(None));
    let _called = called_by_user();
    function()
}
