//! Trace levels: inside of which transformations the code of a thread runs.
//!
//! A reference remembers the level it was made at. It is written at that level only, or what is traced would leak out
//! of its transformation; and it is not read where a function is recorded, or its value would become a constant there.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::error::{Access, ReferenceError};

/// What a transformation does with the function it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelKind {
    /// Runs it for its results.
    Running,
    /// Records it, to run what was recorded later and often.
    Recording,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    id: u64,
    name: &'static str,
    kind: LevelKind,
}

thread_local! {
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A transformation in progress on this thread, until it is dropped: what a library of transformations holds while it
/// runs a user's function.
///
/// # Examples
/// ```
/// use pytree_core::level::{LevelKind, TraceLevel};
/// use pytree_core::Ref;
/// let count = Ref::new(1);
/// let level = TraceLevel::begin("jit", LevelKind::Recording);
/// assert!(count.try_set(2).is_err());
/// drop(level);
/// assert!(count.try_set(2).is_ok());
/// ```
#[derive(Debug)]
pub struct TraceLevel {
    depth: usize,
}

impl TraceLevel {
    /// Begins a transformation, named as messages name it.
    #[must_use]
    pub fn begin(name: &'static str, kind: LevelKind) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        LEVELS.with_borrow_mut(|levels| {
            levels.push(Level { id, name, kind });
            Self {
                depth: levels.len() - 1,
            }
        })
    }
}

impl Drop for TraceLevel {
    fn drop(&mut self) {
        LEVELS.with_borrow_mut(|levels| levels.truncate(self.depth));
    }
}

/// The level at which a reference was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(Option<Level>);

impl Origin {
    /// The innermost level of this thread.
    pub(crate) fn here() -> Self {
        Self(LEVELS.with_borrow(|levels| levels.last().copied()))
    }

    /// Whether a reference made there may be read or written here.
    pub(crate) fn check(&self, access: Access) -> Result<(), ReferenceError> {
        LEVELS.with_borrow(|levels| {
            let inside = match self.0 {
                None => levels.as_slice(),
                Some(own) => match levels.iter().rposition(|level| level.id == own.id) {
                    Some(at) => &levels[at + 1..],
                    None => {
                        return Err(ReferenceError::Over {
                            access,
                            transformation: own.name,
                        });
                    }
                },
            };
            let forbids =
                |level: &&Level| access != Access::Read || level.kind == LevelKind::Recording;
            match inside.iter().find(forbids) {
                None => Ok(()),
                Some(level) => Err(ReferenceError::Captured {
                    access,
                    transformation: level.name,
                }),
            }
        })
    }
}
