//! Records which thread traces which signature, and which threads wait.
//!
//! If another thread already traces a signature, the current thread waits, so that the function is traced only once. If
//! the other thread itself waits for the current thread, directly or through more threads, both would wait forever. In
//! that case the current thread traces the function itself.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::thread::{self, ThreadId};
use crate::base::sync::{Condvar, Mutex, MutexGuard};
use crate::transformations::function::Origin;
use crate::transformations::signature::Signature;

/// The traces of one compiled function that are in progress.
#[derive(Default)]
pub(crate) struct Tracing {
    running: Mutex<AllRunning>,
    ended: Condvar,
}

#[derive(Default)]
struct AllRunning {
    all: Vec<Running>,
    /// The number of traces that have begun so far plus the number of traces that have ended.
    changes: u64,
}

#[derive(Clone)]
struct Running {
    id: u64,
    thread: ThreadId,
    signature: Arc<Signature>,
    hash: u64,
}

/// The trace for which a thread waits, and the other thread, which runs this trace.
#[derive(Clone, Copy)]
struct Wait {
    id: u64,
    thread: ThreadId,
}

/// All threads that wait for a trace. A thread that needs both locks takes [`Tracing::running`] first.
static WAITS: Mutex<Option<HashMap<ThreadId, Wait>>> = Mutex::new(None);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

fn with_waits<R>(change: impl FnOnce(&mut HashMap<ThreadId, Wait>) -> R) -> R {
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    change(waits.get_or_insert_default())
}

/// Registers that a thread waits for a trace, and returns true. If the thread would wait for itself, directly or
/// through other threads, registers nothing and returns false.
fn begin_wait(this: ThreadId, wait: Wait) -> bool {
    with_waits(|waits| {
        let mut other = wait.thread;
        while let Some(next) = waits.get(&other) {
            other = next.thread;
        }
        if other == this {
            return false;
        }
        waits.insert(this, wait);
        true
    })
}

/// The result of a request for a signature: an existing entry, or the task to trace the function for the signature.
pub(crate) enum Asked<'t, K> {
    Known(K),
    Trace(Begun<'t>),
}

impl Tracing {
    fn running(&self) -> MutexGuard<'_, AllRunning> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry that `known` finds for a signature, or begins a trace. While another thread traces the
    /// signature, this thread waits.
    ///
    /// # Panics
    /// If this thread already traces the signature, because the function would call itself without end.
    pub(crate) fn ask<K>(
        &self,
        (signature, hash): (&Arc<Signature>, u64),
        origin: Origin,
        known: impl Fn() -> Option<K>,
    ) -> Asked<'_, K> {
        let this = thread::current().id();
        loop {
            let running = self.running();
            let changes = running.changes;
            let alike = running.all.iter().filter(|one| one.hash == hash);
            let alike: Vec<Running> = alike.cloned().collect();
            drop(running);
            // Comparing signatures may run code of the user, so no lock is held.
            if let Some(known) = known() {
                return Asked::Known(known);
            }
            let is_same = |one: &&Running| *one.signature == **signature;
            let same: Vec<&Running> = alike.iter().filter(is_same).collect();
            if same.iter().any(|one| one.thread == this) {
                recursive(signature, origin);
            }
            let mut running = self.running();
            if running.changes != changes {
                // A trace has begun or ended in the meantime, so search again.
                continue;
            }
            if let Some(other) = same.first() {
                let wait = Wait {
                    id: other.id,
                    thread: other.thread,
                };
                if begin_wait(this, wait) {
                    drop(self.ended.wait(running));
                    with_waits(|waits| waits.remove(&this));
                    continue;
                }
            }
            let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
            running.changes += 1;
            running.all.push(Running {
                id,
                thread: this,
                signature: Arc::clone(signature),
                hash,
            });
            return Asked::Trace(Begun { tracing: self, id });
        }
    }
}

#[cold]
fn recursive(signature: &Signature, origin: Origin) -> ! {
    let infos: Vec<String> = signature.infos.iter().map(ToString::to_string).collect();
    panic!(
        "cannot trace a compiled function that calls itself with an argument of the same structure, shapes and element types: {} of {}; tracing this recursion would never end: change a shape or a static value in each call, or use `while_loop` or `scan` instead of the recursion ({origin})",
        signature.treedef,
        infos.join(", ")
    )
}

/// A guard for a trace. Until it is dropped, other threads wait for the signature that this thread traces.
pub(crate) struct Begun<'t> {
    tracing: &'t Tracing,
    id: u64,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let mut running = self.tracing.running();
        running.all.retain(|one| one.id != self.id);
        running.changes += 1;
        // This trace has ended, so remove the waits for it, even before the waiting threads run. Otherwise a chain of
        // waits through this trace would look like a deadlock.
        with_waits(|waits| waits.retain(|_, wait| wait.id != self.id));
        drop(running);
        self.tracing.ended.notify_all();
    }
}
