//! Why a reference may not be read or written.

use std::fmt;

use thiserror::Error;

use crate::base::kind::LeafKind;
use crate::base::path::KeyPath;

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

/// Why a call is not repeated that is in conflict with another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrepeated {
    /// The value was taken apart and is put together again: what is between is known to the caller only.
    Caller,
    /// It has run a user's function, by the transformation of this name.
    Function(&'static str),
    /// It is compiled, and has effects that would happen twice.
    Effects,
}

/// A reference is used where it may not be, or by two threads at once.
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
    /// It is written by the function that makes its new value from the old one.
    #[error(
        "cannot write a reference inside of its own `update` or `modify`: the value that this is making would replace what is written; change the value that the function was given"
    )]
    Updating,
    /// References of its kind are not to be written at the moment.
    #[error(
        "cannot write a reference {}: inside of `refs::with_mutable`, only kinds that it accepts are written; write it outside, let the function accept it, or say the kind by `Ref::param` or `Ref::state`",
        .kind.map_or_else(|| "that says no kind itself".to_owned(), |kind| format!("of kind {kind}"))
    )]
    NotMutable {
        /// The kind that the reference says.
        kind: Option<LeafKind>,
    },
    /// Another thread wrote it after a call had read it: nothing of what the call computed is written.
    #[error(
        "cannot write what {} computed: another thread wrote the reference at {} while it ran, so the result is out of date and nothing is written; {}",
        match .unrepeated {
            Unrepeated::Caller => "the code between taking a value apart and putting it together".to_owned(),
            Unrepeated::Function(name) => format!("`{name}`"),
            Unrepeated::Effects => "a compiled function with effects".to_owned(),
        },
        .path.or_root(),
        match .unrepeated {
            Unrepeated::Caller => "repeat both steps, for instance by `boundary::repeated`, or hold a lock around them",
            Unrepeated::Function(_) => "compile the function that calls it with `jit`, whose calls are repeated, or hold a lock around the calls",
            Unrepeated::Effects => "it is not repeated, because its effects would happen twice: hold a lock around the calls, or remove what prints or calls back",
        }
    )]
    Conflict {
        /// Where the reference is in the value that the call has read.
        path: KeyPath,
        /// Why the call is not repeated.
        unrepeated: Unrepeated,
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
