//! An arena that keeps the contents of references alive while a value is visited.
//!
//! A visit cannot borrow leaves from a mutable reference, because another thread may replace its content. The visit
//! stores the current content in the arena and borrows from there.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::contract::pytree::Pytree;

/// The content of a reference at the time of a visit.
pub(crate) type Content = Arc<dyn Pytree + Send + Sync>;

/// Stores the contents of references. A visit borrows leaves from these contents, and a call later compares them with
/// the current contents.
#[derive(Clone, Default)]
pub(crate) struct Arena {
    first: OnceCell<Box<Chunk>>,
}

/// The number of contents in a chunk.
const CHUNK: usize = 32;

#[derive(Clone, Default)]
struct Chunk {
    contents: [OnceCell<Content>; CHUNK],
    next: OnceCell<Box<Chunk>>,
}

/// Adds contents to an arena.
pub(crate) struct ArenaWriter<'a> {
    chunk: &'a OnceCell<Box<Chunk>>,
    /// The number of slots of the current chunk that this writer has filled or found filled.
    taken: usize,
}

impl Arena {
    /// Returns a writer, which appends to the stored contents. Several writers may be used one after another.
    #[inline]
    pub(crate) fn writer(&self) -> ArenaWriter<'_> {
        ArenaWriter {
            chunk: &self.first,
            taken: 0,
        }
    }

    /// Calls `fits` with each item and the stored content at the same position. Returns the first position for which
    /// `fits` returns false.
    pub(crate) fn first_other<T>(
        &self,
        items: &[T],
        fits: impl Fn(&T, &Content) -> bool,
    ) -> Option<usize> {
        let mut chunk = &self.first;
        for (at, items) in items.chunks(CHUNK).enumerate() {
            let filled = chunk.get()?;
            for (position, (item, content)) in items.iter().zip(&filled.contents).enumerate() {
                if !content.get().is_none_or(|content| fits(item, content)) {
                    return Some(at * CHUNK + position);
                }
            }
            chunk = &filled.next;
        }
        None
    }
}

impl<'a> ArenaWriter<'a> {
    /// Stores the content of a reference, and returns a borrow of the stored content.
    pub(crate) fn push(&mut self, content: Content) -> &'a dyn Pytree {
        loop {
            let chunk = self.chunk.get_or_init(Box::default);
            let Some(place) = chunk.contents.get(self.taken) else {
                (self.chunk, self.taken) = (&chunk.next, 0);
                continue;
            };
            self.taken += 1;
            // Another writer of the same arena may have filled the slot.
            if place.get().is_some() {
                continue;
            }
            return &**place.get_or_init(|| content);
        }
    }
}

impl Drop for Arena {
    /// Frees the chunks in a loop, because a long chain must not recurse.
    fn drop(&mut self) {
        let mut chunk = self.first.take();
        while let Some(mut ended) = chunk {
            chunk = ended.next.take();
        }
    }
}
