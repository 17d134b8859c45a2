//! The locks, atomics, threads and thread-local variables of shuttle, in the place of those that the library uses.

use std::sync::PoisonError;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};

pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard, atomic};
pub(crate) use shuttle::{thread, thread_local};

/// Whether time limits may end. A test of what holds within the limit sets it to `false`; then a wait that nobody ends is
/// a deadlock. A read of it is no step of a thread.
pub(crate) static TIME_PASSES: std::sync::atomic::AtomicBool =
    std::sync::atomic::AtomicBool::new(true);

/// Locks a mutex once the value is not `is_early`, or at any moment after a wait: shuttle has no time.
pub(crate) fn lock_when<'m, T>(
    mutex: &'m Mutex<T>,
    changed: &Condvar,
    _limit: Duration,
    mut is_early: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'m, T> {
    let lock = || mutex.lock().unwrap_or_else(PoisonError::into_inner);
    let mut guard = lock();
    while is_early(&mut guard) {
        if TIME_PASSES.load(atomic::Ordering::Relaxed) && thread_rng().r#gen() {
            drop(guard);
            thread::yield_now();
            return lock();
        }
        guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    guard
}
