//! What is kept alive while a value is visited.
//!
//! The leaves behind a mutable reference can't be borrowed from it: they may be replaced meanwhile. A visit takes
//! hold of what the reference has at the moment, and borrows from that.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::contract::pytree::Pytree;

/// What a reference held when it was visited.
pub(crate) type Content = Arc<dyn Pytree + Send + Sync>;

/// Keeps what references held for as long as a visit borrows it, or a call wants to know whether it is still there.
#[derive(Clone, Default)]
pub(crate) struct Arena {
    first: OnceCell<Box<Chunk>>,
}

/// How many are kept side by side.
const CHUNK: usize = 32;

#[derive(Clone, Default)]
struct Chunk {
    contents: [OnceCell<Content>; CHUNK],
    next: OnceCell<Box<Chunk>>,
}

/// Adds to what is kept.
pub(crate) struct ArenaWriter<'a> {
    chunk: &'a OnceCell<Box<Chunk>>,
    /// How many of the chunk are taken.
    taken: usize,
}

impl Arena {
    /// The one that adds; of several, each adds where the one before ended.
    #[inline]
    pub(crate) fn writer(&self) -> ArenaWriter<'_> {
        ArenaWriter {
            chunk: &self.first,
            taken: 0,
        }
    }

    /// The position of the first of some items that does not fit what is kept, in the order in which it was added.
    pub(crate) fn first_other<T>(
        &self,
        items: &[T],
        fits: impl Fn(&T, &Content) -> bool,
    ) -> Option<usize> {
        let mut chunk = &self.first;
        for (at, items) in items.chunks(CHUNK).enumerate() {
            let full = chunk.get()?;
            for (position, (item, content)) in items.iter().zip(&full.contents).enumerate() {
                if !content.get().is_none_or(|content| fits(item, content)) {
                    return Some(at * CHUNK + position);
                }
            }
            chunk = &full.next;
        }
        None
    }
}

impl<'a> ArenaWriter<'a> {
    /// Keeps what a reference held.
    pub(crate) fn push(&mut self, content: Content) -> &'a dyn Pytree {
        loop {
            let chunk = self.chunk.get_or_init(Box::default);
            let Some(place) = chunk.contents.get(self.taken) else {
                (self.chunk, self.taken) = (&chunk.next, 0);
                continue;
            };
            self.taken += 1;
            // Another writer of the same may have taken the place.
            if place.get().is_some() {
                continue;
            }
            return &**place.get_or_init(|| content);
        }
    }
}

impl Drop for Arena {
    /// One by one: a long chain must not recurse.
    fn drop(&mut self) {
        let mut chunk = self.first.take();
        while let Some(mut ended) = chunk {
            chunk = ended.next.take();
        }
    }
}
