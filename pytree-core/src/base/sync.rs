//! The locks, atomics and thread-local variables of references and turns.
//!
//! They are those of the standard library. With `cfg(shuttle)`, `tools/interleavings/sync.rs` takes the place of this
//! file: shuttle runs the threads of a test in many orders of their steps.

use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard, atomic};
pub(crate) use std::thread_local;

/// Locks a mutex once `is_early` is false for its value, or after a time limit. A thread that changes the value notifies
/// `changed`.
pub(crate) fn lock_when<'m, T>(
    mutex: &'m Mutex<T>,
    changed: &Condvar,
    limit: Duration,
    is_early: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'m, T> {
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(guard, limit, is_early);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
