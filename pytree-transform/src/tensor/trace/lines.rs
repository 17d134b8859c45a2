//! The user's line that operations are attributed to.

use std::cell::Cell;
use std::panic::Location;

use crate::base::error::called_by_user;

thread_local! {
    static LINE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// While it lives, operations are attributed to the user's line of the operation whose rule runs.
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

/// The user's line of the operation whose rule runs; the caller's if none does.
#[track_caller]
pub(crate) fn current_line() -> &'static Location<'static> {
    // A closure would be its own caller.
    match LINE.get() {
        Some(line) => line,
        None => Location::caller(),
    }
}

/// Runs `function` with operations attributed to `line`.
pub(crate) fn at_line<R>(line: &'static Location<'static>, function: impl FnOnce() -> R) -> R {
    let _line = LineGuard::set(line);
    function()
}

/// As [`at_line`], unless operations are attributed to a line already.
pub(crate) fn at_line_by_default<R>(
    line: &'static Location<'static>,
    function: impl FnOnce() -> R,
) -> R {
    let _line = LineGuard::set(LINE.get().unwrap_or(line));
    function()
}

/// Runs `function`, a user's, with operations attributed to the lines it calls them from.
pub(crate) fn at_own_lines<R>(function: impl FnOnce() -> R) -> R {
    let _line = LineGuard(LINE.replace(None));
    let _called = called_by_user();
    function()
}
