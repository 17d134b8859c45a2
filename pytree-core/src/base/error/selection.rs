//! The reasons why a selection cannot be used.

use std::fmt;

use crate::base::path::KeyPath;

/// The reason why a selection cannot be used. A selected node is found by the memory addresses of
/// its leaves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SelectionMistake {
    /// The selected value has no leaves.
    NoLeaves,
    /// The leaves have size zero, and therefore no address of their own.
    NoSize,
    /// The leaves are not inside the model.
    Elsewhere,
    /// The number of values differs from the number of selected places.
    Count {
        /// The number of selected places.
        places: usize,
        /// The number of values.
        values: usize,
    },
    /// Two selected places are the same, or one contains the other, so they cannot both be replaced.
    Overlap {
        /// The path of the outer place.
        outer: KeyPath,
        /// The path of the inner place.
        inner: KeyPath,
    },
}

impl SelectionMistake {
    /// Returns the verb of the message: the operation that failed on the selected value.
    pub(super) const fn doing(&self) -> &'static str {
        match self {
            Self::NoLeaves | Self::NoSize | Self::Elsewhere => "find",
            Self::Count { .. } | Self::Overlap { .. } => "replace",
        }
    }
}

impl fmt::Display for SelectionMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count { places, values } => {
                let s = if *values == 1 { "" } else { "s" };
                return write!(
                    f,
                    "expected a value for each of {places} selected places, found {values} value{s}; pass as many values as `get` returns places"
                );
            }
            Self::Overlap { outer, inner } if outer == inner => {
                return write!(
                    f,
                    "it is selected twice at {}, perhaps as a shared node at two paths; select each node once",
                    outer.or_root()
                );
            }
            Self::Overlap { outer, inner } => {
                return write!(
                    f,
                    "{} is inside of {}, which is also selected; select only one of them",
                    inner.or_root(),
                    outer.or_root()
                );
            }
            Self::NoLeaves => {
                "it has no leaves, but a selected node is found by the memory addresses of its leaves; use `edit::replace_at` with the path of the node, or select its parent"
            }
            Self::NoSize => {
                "its leaves have size zero, so they have no memory addresses of their own; use `edit::replace_at` with the path of the node, or select its parent"
            }
            Self::Elsewhere => {
                "its leaves are not inside the model; return a reference to a leaf or a node of the model, not to a copy or to a static field"
            }
        })
    }
}
