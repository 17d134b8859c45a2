//! How the library reports a mistake of its own.

use std::fmt::Display;
use std::slice::SliceIndex;

/// The invariant of trees and parts that most walks rely on: a leaf, or an item, for each leaf of the structure.
pub(crate) const LEAVES: &str = "an item for each leaf of a structure";

/// Panics in a state that only a mistake in the library can cause, and says what was expected instead.
///
/// A wrong value that is returned in silence is found much later, far from its cause.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn bug(expected: impl Display) -> ! {
    panic!("this is a bug in pytree: expected {expected}; please report it")
}

/// Returns the next item where only a mistake in the library leaves none; `expected` says what there should be.
#[inline]
#[track_caller]
pub(crate) fn expect_next<T>(
    items: &mut (impl Iterator<Item = T> + ?Sized),
    expected: &'static str,
) -> T {
    match items.next() {
        Some(item) => item,
        None => bug(expected),
    }
}

/// Returns the items at a position or range where only a mistake in the library leaves none.
#[inline]
#[track_caller]
pub(crate) fn expect_at<'a, T, I: SliceIndex<[T]>>(
    items: &'a [T],
    at: I,
    expected: &'static str,
) -> &'a I::Output {
    match items.get(at) {
        Some(found) => found,
        None => bug(expected),
    }
}
