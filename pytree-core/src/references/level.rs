//! Trace levels: the stack of the transformations that are running on a thread.
//!
//! No other crate has such a stack. A library of transformations begins levels on the stack, and stores in each level
//! the data that it needs to trace operations. References need only the number and the kind of a level.
//!
//! A reference stores the level at which it was created. A reference can be written only at its level; otherwise traced
//! values would escape from their transformation. A reference from outside cannot be read inside a recorded function,
//! because its value would become a constant of the recorded program. There is one exception: a compiled function may
//! read a reference of an enclosing transformation. In this case, the compiled program is used only once.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::error::{Access, ReferenceError};

/// How a transformation runs its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LevelKind {
    /// The function runs directly, and its results are used.
    Running,
    /// The function is recorded. The recorded program runs later, possibly many times.
    Recording,
    /// The function is recorded. The recorded program is cached, and may run many times. If the function reads a
    /// reference of an enclosing transformation, [`has_read_captured`] returns true. In this case, the program runs
    /// once, immediately, and is not cached.
    Compiling,
}

/// The identifier of a level, unique in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelId(u64);

/// A level of the stack: one transformation in progress.
#[derive(Clone)]
pub struct Level {
    id: LevelId,
    name: &'static str,
    kind: LevelKind,
    content: Rc<dyn Any>,
    /// Whether a reference of an enclosing transformation was read at this level or inside of it.
    has_read_captured: Cell<bool>,
}

impl Level {
    /// Returns the identifier of the level.
    pub fn id(&self) -> LevelId {
        self.id
    }

    /// Returns the data that the library of transformations stores in the level.
    pub fn content(&self) -> &Rc<dyn Any> {
        &self.content
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Level")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

crate::per_thread! {
    static LEVELS: Vec<Level> = Vec::new();
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Calls `look` with the levels of this thread, from the outermost to the innermost. `look` must not begin or end a
/// level.
#[inline]
pub fn with_levels<R>(look: impl FnOnce(&[Level]) -> R) -> R {
    LEVELS.with_borrow(|levels| look(levels))
}

/// Returns whether the innermost level is [`Compiling`](LevelKind::Compiling) and its function has read a reference of
/// an enclosing transformation. The reference may have another value when the function is called again.
pub fn has_read_captured() -> bool {
    with_levels(|levels| {
        let innermost = levels.last();
        innermost.is_some_and(|level| level.has_read_captured.get())
    })
}

/// A guard of a transformation in progress on this thread. The transformation ends when the guard is dropped.
///
/// A library of transformations holds the guard while it runs a user's function.
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
    id: LevelId,
    /// Makes the guard impossible to send to another thread, because each thread has its own stack of levels.
    thread: PhantomData<Rc<()>>,
}

impl TraceLevel {
    /// Begins the level of a transformation. Error messages refer to the transformation by `name`.
    #[must_use]
    pub fn begin(name: &'static str, kind: LevelKind) -> Self {
        Self::begin_with(name, kind, Rc::new(()))
    }

    /// Begins the level of a transformation, and stores `content` in the level; [`with_levels`] gives access to it.
    ///
    /// # Examples
    /// ```
    /// use std::rc::Rc;
    /// use pytree_core::level::{LevelKind, TraceLevel, with_levels};
    /// let level = TraceLevel::begin_with("jit", LevelKind::Recording, Rc::new(7_u32));
    /// let kept = with_levels(|levels| levels[level.depth()].content().downcast_ref().copied());
    /// assert_eq!(kept, Some(7_u32));
    /// ```
    #[must_use]
    pub fn begin_with(name: &'static str, kind: LevelKind, content: Rc<dyn Any>) -> Self {
        let id = LevelId(NEXT.fetch_add(1, Ordering::Relaxed));
        let level = Level {
            id,
            name,
            kind,
            content,
            has_read_captured: Cell::new(false),
        };
        LEVELS.with_borrow_mut(|levels| {
            levels.push(level);
            Self {
                depth: levels.len() - 1,
                id,
                thread: PhantomData,
            }
        })
    }

    /// Returns the number of levels outside of this level.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the identifier of the level.
    pub fn id(&self) -> LevelId {
        self.id
    }
}

impl Drop for TraceLevel {
    fn drop(&mut self) {
        let innermost = || {
            LEVELS.with_borrow_mut(|levels| {
                let is_inside = levels.len() > self.depth;
                is_inside.then(|| levels.pop()).flatten()
            })
        };
        // Dropping the content of a level may use the stack, so each level is dropped after the borrow of the stack has
        // ended.
        while let Some(level) = innermost() {
            drop(level);
        }
    }
}

/// The level at which a reference was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(Option<OriginLevel>);

/// The data that a reference stores about the level at which it was created. The reference may outlive the level.
#[derive(Clone, Copy, Debug)]
struct OriginLevel {
    id: LevelId,
    name: &'static str,
}

impl Origin {
    /// Returns the innermost level of this thread.
    pub(crate) fn here() -> Self {
        Self(with_levels(|levels| {
            levels.last().map(|level| OriginLevel {
                id: level.id,
                name: level.name,
            })
        }))
    }

    /// Checks whether a reference that was created at this level may be used at the current level.
    pub(crate) fn check(&self, access: Access) -> Result<(), ReferenceError> {
        with_levels(|levels| {
            let inside = match self.0 {
                None => levels,
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
            let forbids = |level: &&Level| match level.kind {
                _ if access != Access::Read => true,
                LevelKind::Running => false,
                LevelKind::Recording => true,
                // If the reference was created outside of all transformations, its value would become a constant of the
                // program.
                LevelKind::Compiling => self.0.is_none(),
            };
            match inside.iter().find(forbids) {
                None => {
                    let compiling = |level: &&Level| level.kind == LevelKind::Compiling;
                    for level in inside.iter().filter(compiling) {
                        level.has_read_captured.set(true);
                    }
                    Ok(())
                }
                Some(level) => Err(ReferenceError::Captured {
                    access,
                    transformation: level.name,
                }),
            }
        })
    }
}
