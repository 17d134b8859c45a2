//! How the library reports a mistake of its own.

use std::fmt::Display;

/// Panics in a state that only a mistake in the library can cause, and says what was expected instead.
///
/// A wrong value that is returned in silence is found much later, far from its cause.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn bug(expected: impl Display) -> ! {
    panic!("this is a bug in pytree: expected {expected}; please report it")
}
