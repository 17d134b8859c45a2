//! Obstacles that a walk over a value cannot pass, such as a cycle in a tree.
//!
//! A visitor returns nothing, so only unwinding ends a walk early. In a function that returns no error, an obstacle is
//! a panic. A function that returns a `Result` walks inside of [`attempt`], which returns the obstacle as an error.
//! Inside of [`attempt`], the unwinding begins without a panic, so no panic hook prints a message. In a program that
//! aborts on panics, both kinds of unwinding abort the program.
//!
//! `Pytree::visit` is the only code of the user that runs inside of [`attempt`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::error::TreeError;

thread_local! {
    /// The number of calls of [`attempt`] that have begun and not ended on this thread.
    static ATTEMPTS: Cell<usize> = const { Cell::new(0) };
}

/// The payload of the unwinding from [`refuse`] to [`attempt`].
struct Obstacle(TreeError);

/// Ends the walk because of an obstacle.
///
/// # Panics
/// If this function is not called inside of [`attempt`].
#[cold]
#[track_caller]
pub(crate) fn refuse(error: impl Into<TreeError>) -> ! {
    let error = error.into();
    if ATTEMPTS.get() > 0 {
        resume_unwind(Box::new(Obstacle(error)));
    }
    panic!("{error}");
}

/// Returns the value of `outcome`.
///
/// # Panics
/// If `outcome` is an error and this function is not called inside of [`attempt`].
#[track_caller]
pub(crate) fn or_refuse<T>(outcome: Result<T, TreeError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => refuse(error),
    }
}

/// Runs a walk. If an obstacle ends the walk, returns the obstacle as an error.
#[track_caller]
pub(crate) fn attempt<R>(walk: impl FnOnce() -> R) -> Result<R, TreeError> {
    let outcome = {
        let _counted = Counted::new();
        catch_unwind(AssertUnwindSafe(walk))
    };
    outcome.map_err(|payload| match payload.downcast::<Obstacle>() {
        Ok(obstacle) => obstacle.0,
        Err(payload) => resume_unwind(payload),
    })
}

/// A guard that counts an attempt until the guard is dropped.
struct Counted;

impl Counted {
    fn new() -> Self {
        ATTEMPTS.set(ATTEMPTS.get() + 1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ATTEMPTS.set(ATTEMPTS.get() - 1);
    }
}
