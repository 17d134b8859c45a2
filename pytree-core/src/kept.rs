//! What is kept alive while a value is visited.
//!
//! The leaves behind a mutable reference can't be borrowed from it: they may be replaced meanwhile. A visit takes
//! hold of what the reference has at the moment, and borrows from that.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use crate::pytree::Pytree;

/// What a reference held when it was visited.
pub(crate) type Content = Arc<dyn Pytree + Send + Sync>;

/// Keeps what references held for as long as a visit borrows it.
#[derive(Default)]
pub(crate) struct Kept {
    first: OnceCell<Box<Link>>,
}

struct Link {
    content: Content,
    next: OnceCell<Box<Link>>,
}

/// Adds to what is kept.
pub(crate) struct Keeper<'a> {
    end: Cell<&'a OnceCell<Box<Link>>>,
}

impl Kept {
    pub(crate) fn keeper(&self) -> Keeper<'_> {
        Keeper {
            end: Cell::new(&self.first),
        }
    }
}

impl<'a> Keeper<'a> {
    /// Keeps what a reference held.
    pub(crate) fn keep(&self, content: Content) -> &'a dyn Pytree {
        let mut end = self.end.get();
        // Another keeper of the same place may have added to it.
        while let Some(link) = end.get() {
            end = &link.next;
        }
        let link = end.get_or_init(|| {
            Box::new(Link {
                content,
                next: OnceCell::new(),
            })
        });
        self.end.set(&link.next);
        &*link.content
    }
}

impl Drop for Kept {
    /// One by one: a long chain must not recurse.
    fn drop(&mut self) {
        let mut link = self.first.take();
        while let Some(mut ended) = link {
            link = ended.next.take();
        }
    }
}
