//! The reasons why a reference may not be read or written.

use std::fmt;

use thiserror::Error;

use crate::base::kind::LeafKind;
use crate::base::path::KeyPath;

/// How a reference is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The value of the reference is read.
    Read,
    /// The value of the reference is replaced.
    Write,
    /// The reference is part of the result of a function.
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

/// The reason why a call is not repeated after a conflict with another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrepeated {
    /// One call flattened the value, and another call unflattens it. Only the caller can repeat the code between the
    /// two calls.
    Caller,
    /// The transformation with this name has run a user's function.
    Function(&'static str),
    /// The call is compiled and has effects that would happen twice.
    Effects,
}

/// The thread that wrote a reference during a call that also writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Writer {
    /// Another thread than the thread of the call.
    OtherThread,
    /// The thread of the call, for instance in a callback.
    SameThread,
}

/// A reference is used where its use is not allowed, or by two threads at the same time.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The reference was created outside of the transformation in which it is used.
    #[error(
        "cannot {access} a reference inside of `{transformation}` if the reference was created outside: {}; pass the reference as part of the argument{}",
        match .access {
            Access::Read => "its value would become a constant of the recorded function",
            Access::Write => "traced values would leak out of the transformation",
            Access::Return => "the function would return a different reference",
        },
        match .access {
            Access::Read | Access::Return => "",
            Access::Write => ", so that its final value is written back",
        }
    )]
    Captured {
        /// The use that was attempted.
        access: Access,
        /// The name of the transformation in which the reference is used.
        transformation: &'static str,
    },
    /// The function that computes the new value of the reference writes the reference.
    #[error(
        "cannot write a reference inside of its own `update` or `modify`: the result of the function would replace the written value; change the argument of the function instead"
    )]
    Updating,
    /// The enclosing `refs::with_mutable` does not accept references of this kind.
    #[error(
        "cannot write a reference {}: inside of `refs::with_mutable`, only references of accepted kinds may be written; write the reference outside, accept its kind, or create it with a kind by `Ref::param` or `Ref::state`",
        .kind.map_or_else(|| "that has no kind".to_owned(), |kind| format!("of kind {kind}"))
    )]
    NotMutable {
        /// The kind that the reference was created with, if any.
        kind: Option<LeafKind>,
    },
    /// The reference was written after the call read it, and not by the call's own function. No result of the call is
    /// written.
    #[error(
        "cannot write the results of {}: {} the reference at {} while it ran, so the result is out of date and nothing is written; {}",
        match .unrepeated {
            Unrepeated::Caller => "the code between flattening and unflattening a value".to_owned(),
            Unrepeated::Function(name) => format!("`{name}`"),
            Unrepeated::Effects => "a compiled function with effects".to_owned(),
        },
        match .writer {
            Writer::OtherThread => "another thread wrote",
            Writer::SameThread => "this thread wrote",
        },
        .path.or_root(),
        match .unrepeated {
            Unrepeated::Function(_) | Unrepeated::Effects if *.writer == Writer::SameThread => "the write is in a callback of the call, or in other code that runs during the call and is not part of it: let the callback return the value instead, or write the reference before or after the call",
            Unrepeated::Caller => "repeat the flattening and the unflattening, for instance by `boundary::repeated`, or hold a lock around both",
            Unrepeated::Function(_) => "compile the calling function with `jit`, which retries a call after such a conflict, or hold a lock while any thread runs the function or writes the reference",
            Unrepeated::Effects => "the call is not repeated, because its effects would happen twice: hold a lock while any thread runs the function or writes the reference, or remove effects such as printing",
        }
    )]
    Conflict {
        /// The path of the reference in the argument of the call.
        path: KeyPath,
        /// Who wrote the reference.
        writer: Writer,
        /// The reason why the call is not repeated.
        unrepeated: Unrepeated,
    },
    /// The reference was created inside a transformation that has finished, or that runs on another thread.
    #[error(
        "cannot {access} a reference that was created inside of `{transformation}`, which has finished or runs on another thread; return it as part of the result, and use the reference in that result"
    )]
    Over {
        /// The use that was attempted.
        access: Access,
        /// The name of the transformation in which the reference was created.
        transformation: &'static str,
    },
}

pytree_base::debug_as_display!(ReferenceError);
