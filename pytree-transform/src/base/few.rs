//! Collects a few items.

use smallvec::{Array, SmallVec};

/// Returns the items of an iterator, as `collect` does. Each use of `SmallVec::from_iter` is compiled to several times as much code, which is
/// not inlined into other codegen units.
#[inline]
pub(crate) fn few<A: Array>(items: impl Iterator<Item = A::Item>) -> SmallVec<A> {
    let mut collected = SmallVec::new();
    for item in items {
        collected.push(item);
    }
    collected
}
