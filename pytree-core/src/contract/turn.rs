//! Turns: after repeated conflicts, a call runs alone, while no other thread writes a reference.
//!
//! A conflict means that another call has succeeded, so the program as a whole always advances. A turn helps a call
//! that would have repeated conflicts. Each wait for the end of a turn has a time limit, because the call that has the
//! turn may itself wait for the waiting thread. Without the limit, both threads would wait forever.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::PoisonError;
use std::time::Duration;

use crate::base::error::TreeError;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Condvar, Mutex, MutexGuard, lock_when, thread_local};

/// The number of conflicts after which a call waits for its turn.
const CONFLICTS: u32 = 3;

/// The longest time that a thread waits for the end of a turn.
const PATIENCE: Duration = Duration::from_secs(10);

static TAKEN: Mutex<bool> = Mutex::new(false);
static ENDED: Condvar = Condvar::new();
/// A copy of the value of `TAKEN`. A thread that writes a reference reads this copy without a lock.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_MINE: Cell<bool> = const { Cell::new(false) };
}

/// A guard of the turn: writes of other threads wait until the guard is dropped. The guard cannot be sent to another
/// thread.
#[derive(Debug)]
struct Turn(PhantomData<*const ()>);

impl Turn {
    /// Waits until no other call has the turn, and takes the turn. Returns `None` if this thread already has the turn,
    /// or if the wait has timed out.
    fn take() -> Option<Self> {
        if is_mine() {
            return None;
        }
        let mut taken = taken_later();
        if *taken {
            return None;
        }
        *taken = true;
        IS_TAKEN.store(true, Ordering::Relaxed);
        IS_MINE.with(|is_mine| is_mine.set(true));
        Some(Self(PhantomData))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IS_MINE.with(|is_mine| is_mine.set(false));
        IS_TAKEN.store(false, Ordering::Relaxed);
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = false;
        ENDED.notify_all();
    }
}

/// Returns whether a call on this thread has the turn.
fn is_mine() -> bool {
    IS_MINE.with(Cell::get)
}

/// Waits while a call on another thread has the turn. Call this before a write, while no lock is held.
pub(crate) fn give_way() {
    if IS_TAKEN.load(Ordering::Relaxed) && !is_mine() {
        wait();
    }
}

#[cold]
fn wait() {
    drop(taken_later());
}

/// Waits while a call has the turn, at most for the time limit, and locks `TAKEN`.
fn taken_later() -> MutexGuard<'static, bool> {
    lock_when(&TAKEN, &ENDED, PATIENCE, |taken| *taken)
}

/// The attempts of a call that is repeated as long as other threads write references that the call has read.
///
/// After several conflicts, only one of the calls in conflict runs at a time. The writes of other threads wait for this
/// call.
#[derive(Debug, Default)]
pub struct Attempts {
    conflicts: u32,
    turn: Option<Turn>,
}

impl Attempts {
    /// Counts a conflict. After three conflicts, waits for the turn of this call.
    pub fn conflicted(&mut self) {
        self.conflicts += 1;
        if self.conflicts >= CONFLICTS && self.turn.is_none() {
            self.turn = Turn::take();
        }
    }

    /// Ends the turn of this call, if the call has the turn. Call this before running a user's function or waiting for
    /// another thread.
    pub fn end_turn(&mut self) {
        self.turn = None;
    }
}

/// Runs `attempt` until it ends without a conflict with another thread; see [`Attempts`]. `attempt` may run several
/// times, so repeating its effects must be harmless.
///
/// # Examples
/// ```
/// use pytree_core::boundary::{unflatten_with_references, repeated, flatten_with_references};
/// use pytree_core::{Contents, Ref};
/// let pair = (Ref::new(1), Ref::new(2));
/// repeated(|| {
///     let (leaves, treedef, references) = flatten_with_references::<i32, _>(&pair);
///     let swapped = vec![leaves[1], leaves[0]];
///     unflatten_with_references::<i32, (Ref<i32>, Ref<i32>)>(&treedef, swapped, &references, Contents::Written)
/// })?;
/// assert_eq!((pair.0.get(), pair.1.get()), (2, 1));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
/// # Errors
/// Any error of `attempt`, except conflicts.
pub fn repeated<T>(mut attempt: impl FnMut() -> Result<T, TreeError>) -> Result<T, TreeError> {
    let mut attempts = Attempts::default();
    loop {
        match attempt() {
            Err(error) if error.is_conflict() => attempts.conflicted(),
            outcome => return outcome,
        }
    }
}
