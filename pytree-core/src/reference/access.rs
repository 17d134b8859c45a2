//! What may be done with a reference, and where.

use std::cell::RefCell;
use std::fmt;

use thiserror::Error;

use crate::kind::LeafKind;

/// What is done with a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its value is asked for.
    Read,
    /// Its value is replaced.
    Write,
    /// It is part of what a function gives.
    Return,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Return => "return",
        })
    }
}

/// A reference is used at a trace level where it may not be.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// It was made outside of the transformation in which it is used.
    #[error(
        "cannot {access} a reference inside of `{transformation}` that was made outside of it: {}; pass it as part of the argument{}",
        match .access {
            Access::Read => "its value would become a constant of what is recorded",
            Access::Write => "what is traced would leak out",
            Access::Return => "another one would come out",
        },
        match .access {
            Access::Read | Access::Return => "",
            Access::Write => ", and what is written to it comes out",
        }
    )]
    Captured {
        /// What was tried.
        access: Access,
        /// The transformation.
        transformation: &'static str,
    },
    /// References of its kind are not to be written at the moment.
    #[error(
        "cannot write a reference of kind {}: only others are mutable here; write it outside of `refs::with_mutable`, or let that accept its kind",
        .kind.map_or_else(|| "none".to_owned(), |kind| kind.to_string())
    )]
    NotMutable {
        /// The kind that the reference says.
        kind: Option<LeafKind>,
    },
    /// It was made inside of a transformation that is over, or that runs on another thread.
    #[error(
        "cannot {access} a reference that was made inside of `{transformation}`, which is over or runs on another thread; return it as part of the result, where it becomes one that lasts"
    )]
    Over {
        /// What was tried.
        access: Access,
        /// The transformation.
        transformation: &'static str,
    },
}

impl fmt::Debug for ReferenceError {
    /// As it displays: this is what `unwrap` and a program print that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

thread_local! {
    /// What references must be accepted by to be written.
    static MUTABLE: RefCell<Vec<AcceptsKind>> = const { RefCell::new(Vec::new()) };
}

pub(super) type AcceptsKind = Box<dyn Fn(Option<LeafKind>) -> bool>;

/// While it lives, references are written only if it accepts their kinds.
pub(crate) struct Mutable;

impl Mutable {
    pub(crate) fn begin(accepts: AcceptsKind) -> Self {
        MUTABLE.with_borrow_mut(|all| all.push(accepts));
        Self
    }
}

impl Mutable {
    /// Whether references of a kind may be written at the moment.
    pub(super) fn accepts(kind: Option<LeafKind>) -> bool {
        MUTABLE.with_borrow(|all| all.iter().all(|accepts| accepts(kind)))
    }
}

impl Drop for Mutable {
    fn drop(&mut self) {
        let _ = MUTABLE.with_borrow_mut(Vec::pop);
    }
}

/// What a panicking method makes of an error.
#[track_caller]
pub(super) fn allowed<T>(outcome: Result<T, ReferenceError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
