//! How the library reports a mistake of its own. The crates above use it, too; it is no part of the interface.

use std::fmt::Display;
use std::iter::Zip;
use std::slice::SliceIndex;

/// The invariant of trees and parts that most walks rely on: a leaf, or an item, for each leaf of the structure.
pub const LEAVES: &str = "an item for each leaf of a structure";

/// Panics in a state that only a mistake in the library can cause, and says what was expected instead.
///
/// A wrong value that is returned in silence is found much later, far from its cause.
///
/// # Panics
/// Always.
#[cold]
#[inline(never)]
#[track_caller]
pub fn bug(expected: impl Display) -> ! {
    panic!("this is a bug in pytree: expected {expected}; please report it")
}

/// Returns the next item where only a mistake in the library leaves none; `expected` says what there should be.
///
/// # Panics
/// If there is none.
#[inline]
#[track_caller]
pub fn expect_next<T>(items: &mut (impl Iterator<Item = T> + ?Sized), expected: &'static str) -> T {
    match items.next() {
        Some(item) => item,
        None => bug(expected),
    }
}

/// Returns the items at a position or range where only a mistake in the library leaves none.
///
/// # Panics
/// If the position or range is out of bounds.
#[inline]
#[track_caller]
pub fn expect_at<'a, T, I: SliceIndex<[T]>>(
    items: &'a [T],
    at: I,
    expected: &'static str,
) -> &'a I::Output {
    match items.get(at) {
        Some(found) => found,
        None => bug(expected),
    }
}

/// Returns a value where only a mistake in the library leaves none.
///
/// # Panics
/// If it is `None`.
#[inline]
#[track_caller]
pub fn expect_some<T>(value: Option<T>, expected: &'static str) -> T {
    match value {
        Some(value) => value,
        None => bug(expected),
    }
}

/// Pairs the items of two lists that only a mistake in the library makes of different lengths. They are compared once.
///
/// # Panics
/// If the lengths differ.
#[inline]
#[track_caller]
pub fn pairs<L, R>(
    left: L,
    right: R,
    expected: &'static str,
) -> Zip<<L as IntoIterator>::IntoIter, <R as IntoIterator>::IntoIter>
where
    L: IntoIterator<IntoIter: ExactSizeIterator>,
    R: IntoIterator<IntoIter: ExactSizeIterator>,
{
    let (left, right) = (left.into_iter(), right.into_iter());
    if left.len() != right.len() {
        other_lengths(left.len(), right.len(), expected);
    }
    left.zip(right)
}

#[cold]
#[inline(never)]
#[track_caller]
fn other_lengths(left: usize, right: usize, expected: &'static str) -> ! {
    bug(format_args!("{expected}, found {left} and {right}"))
}
