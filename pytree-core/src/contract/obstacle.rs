//! Obstacles that a walk over a value cannot pass, such as a cycle in a tree.
//!
//! A visit returns nothing, so a visitor that meets an obstacle records it and skips the rest of the walk: it answers
//! [`Visit::Skip`] at each node and ignores everything else. At the end, the walk returns the obstacle as an error. A
//! function that returns no error then panics with [`passed`]. Nothing unwinds, so a program that aborts on panics
//! receives the same errors.

use crate::base::error::TreeError;
use crate::contract::depth;
use crate::contract::pytree::Visit;

/// The obstacle that a walk has met, if any.
#[derive(Default)]
pub(crate) struct Obstacle(Option<Box<Met>>);

/// An obstacle, and where the stack was when the walk met it.
struct Met {
    error: TreeError,
    stack: usize,
}

impl Obstacle {
    /// Returns whether the walk has met an obstacle, so that it skips the rest.
    #[inline]
    pub(crate) fn is_met(&self) -> bool {
        self.0.is_some()
    }

    /// Records an obstacle. Only the first one counts.
    #[cold]
    pub(crate) fn meet(&mut self, error: impl Into<TreeError>) {
        self.0.get_or_insert_with(|| {
            Box::new(Met {
                error: error.into(),
                stack: depth::stack_address(),
            })
        });
    }

    /// Answers at a node after the obstacle.
    ///
    /// # Panics
    /// If a handwritten impl of `Pytree` ignores this answer and calls itself so often that the stack would overflow.
    #[cold]
    pub(crate) fn skip(&self) -> Visit {
        if let Some(met) = &self.0 {
            assert!(!depth::has_grown_since(met.stack), "{}", met.error);
        }
        Visit::Skip
    }

    /// Returns `value`, the result of a walk.
    ///
    /// # Errors
    /// The obstacle that the walk has met.
    #[inline]
    pub(crate) fn or<T>(self, value: impl FnOnce() -> T) -> Result<T, TreeError> {
        match self.0 {
            None => Ok(value()),
            Some(met) => Err(met.error),
        }
    }
}

/// Returns the result of a walk that returns no error to the user.
///
/// # Panics
/// If the walk has met an obstacle.
#[track_caller]
#[inline]
pub(crate) fn passed<T>(outcome: Result<T, TreeError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => stopped(&error),
    }
}

#[cold]
#[track_caller]
fn stopped(error: &TreeError) -> ! {
    panic!("{error}");
}
