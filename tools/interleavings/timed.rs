//! A condition variable of shuttle that may end a wait with a time limit at any moment: shuttle has no time.
//!
//! `.ci/nightly interleavings` puts it in the place of the one that turns wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Mutex, MutexGuard};
use shuttle::thread;

/// Whether time limits may end. A test of what holds within the limit sets it to `false`; then a wait that nobody ends is
/// a deadlock.
pub(crate) static TIME_PASSES: AtomicBool = AtomicBool::new(true);

pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits for a notification, or gives up the lock for a moment and is out of time.
    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mutex: &'a Mutex<T>,
        _limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        while condition(&mut guard) {
            if TIME_PASSES.load(Ordering::Relaxed) && thread_rng().r#gen() {
                drop(guard);
                thread::yield_now();
                guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                break;
            }
            guard = self.0.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        Ok((guard, ()))
    }
}
