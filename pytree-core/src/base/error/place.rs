//! Why entries do not make a state.

use std::fmt;

use crate::base::path::KeyPath;

/// Why an entry of a flat state or of pure dictionaries has no place, or a place has no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceProblem {
    /// The path does not lead to a leaf of the structure.
    Unknown {
        /// The given path.
        path: KeyPath,
        /// The most similar existing path.
        nearest: Option<KeyPath>,
    },
    /// The path leads to a later place of a shared node, whose leaves are listed at its first place.
    Alias {
        /// The given path.
        path: KeyPath,
        /// The path of the same leaf below the first place.
        first: KeyPath,
    },
    /// The place has no entry.
    Missing(KeyPath),
    /// The place has more than one entry.
    Twice(KeyPath),
    /// An entry is below another entry, which is a leaf.
    BelowLeaf {
        /// The path of the entry below.
        path: KeyPath,
        /// The path of the leaf.
        leaf: KeyPath,
    },
}

impl fmt::Display for PlaceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { path, nearest } => {
                write!(f, "{} does not exist", path.or_root())?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean `{}`?", nearest.or_root()),
                    None => Ok(()),
                }
            }
            Self::Alias { path, first } => write!(
                f,
                "{} is the same leaf as {}; pass it once, at that path",
                path.or_root(),
                first.or_root()
            ),
            Self::Missing(path) => write!(f, "{} is missing", path.or_root()),
            Self::Twice(path) => write!(f, "{} is given more than once", path.or_root()),
            Self::BelowLeaf { path, leaf } => write!(
                f,
                "{} is below {}, which is a leaf",
                path.or_root(),
                leaf.or_root()
            ),
        }
    }
}
