//! What layers, losses and metrics can't do.

use std::fmt::{self, Display};

use pytree_transform::{AbstractArray, Tensor, TensorError};
use thiserror::Error;

/// A layer, loss or metric was given what it does not take; nothing was computed.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InputError {
    /// An input has another shape or element type than it must.
    #[error("{what} expects {expected}, found {found}; {mend}")]
    Input {
        /// The layer, loss or metric.
        what: &'static str,
        /// The input and its shape, for instance `x: [.., 64]`.
        expected: String,
        /// What it was given.
        found: AbstractArray,
        /// How to mend it.
        mend: &'static str,
    },
    /// A label that is not a class.
    #[error(
        "{what} expects labels in 0..{classes}, found {label} at position {position}; check the number of classes, or the order of the arguments"
    )]
    Label {
        /// The loss or metric.
        what: &'static str,
        /// The number of classes.
        classes: usize,
        /// The label.
        label: i64,
        /// Its position in row-major order.
        position: usize,
    },
    /// An index of what is not there.
    #[error(
        "{what} expects indices in -{length}..{length}, found {index} at position {position}; check how many there are, and that the indices were made for it"
    )]
    Index {
        /// The layer.
        what: &'static str,
        /// The number of those there are.
        length: usize,
        /// The index.
        index: i64,
        /// Its position in row-major order.
        position: usize,
    },
    /// An operation inside failed.
    #[error("{what}: {source}")]
    Operation {
        /// The layer, loss or metric.
        what: &'static str,
        /// What failed.
        source: TensorError,
    },
}

impl fmt::Debug for InputError {
    /// As it displays: this is what `unwrap` and a program print that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl InputError {
    pub(crate) fn input(
        what: &'static str,
        expected: impl Into<String>,
        found: &Tensor,
        mend: &'static str,
    ) -> Self {
        Self::Input {
            what,
            expected: expected.into(),
            found: found.info().clone(),
            mend,
        }
    }

    /// Says in which layer, loss or metric an operation failed.
    pub(crate) fn inside(what: &'static str) -> impl Fn(TensorError) -> Self {
        move |source| Self::Operation { what, source }
    }
}

/// The value, or a panic at the caller's line.
#[track_caller]
pub(crate) fn or_panic<T, E: Display>(outcome: Result<T, E>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
