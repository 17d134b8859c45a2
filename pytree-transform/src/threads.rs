//! A second thread where it pays.
//!
//! Waking a thread takes some ten microseconds: only work of a tenth of a millisecond and more is divided.
//! The threads are those of rayon's global pool, as many as there are cores unless `RAYON_NUM_THREADS` says
//! otherwise.

/// How many threads there are to divide work among.
pub(crate) fn count() -> usize {
    rayon_core::current_num_threads()
}

/// Runs both functions, the second one on this thread.
pub(crate) fn join<A: Send, B>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    let mut result = None;
    let other = rayon_core::in_place_scope(|scope| {
        scope.spawn(|_| result = Some(first()));
        second()
    });
    match result {
        Some(result) => (result, other),
        None => unreachable!("the scope ends when all that was spawned in it has"),
    }
}
