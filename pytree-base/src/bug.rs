//! Reports bugs of the library itself.

use std::fmt::Display;
use std::iter::Zip;
use std::slice::SliceIndex;

/// The most common argument `expected` of the functions below: a list has an item for each leaf of a structure.
pub const LEAVES: &str = "an item for each leaf of a structure";

/// Panics because of a bug in the library; the message names the expected state.
///
/// The panic shows the bug at its cause. A wrong value would be noticed much later.
///
/// # Panics
/// Always.
#[cold]
#[inline(never)]
#[track_caller]
pub fn bug(expected: impl Display) -> ! {
    panic!("this is a bug in pytree: expected {expected}; please report it")
}

/// Returns the next item. If there is no next item, the library has a bug; `expected` names the item in the message.
///
/// # Panics
/// If there is no next item.
#[inline]
#[track_caller]
pub fn expect_next<T>(items: &mut (impl Iterator<Item = T> + ?Sized), expected: &'static str) -> T {
    match items.next() {
        Some(item) => item,
        None => bug(expected),
    }
}

/// Returns the item at the position `at`, or the items in the range `at`. If `at` is out of bounds, the library has a
/// bug.
///
/// # Panics
/// If `at` is out of bounds.
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

/// Returns the value inside of a `Some`. If `value` is `None`, the library has a bug.
///
/// # Panics
/// If the value is `None`.
#[inline]
#[track_caller]
pub fn expect_some<T>(value: Option<T>, expected: &'static str) -> T {
    match value {
        Some(value) => value,
        None => bug(expected),
    }
}

/// Pairs the items of two lists of equal length and compares the lengths once. If they differ, the library has a bug.
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
