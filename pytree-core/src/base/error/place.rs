//! Why entries do not make a state.

use std::fmt;

use crate::base::path::KeyPath;

/// Why an entry of a flat state or of pure dictionaries has no place, or a place no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceProblem {
    /// The path leads to no leaf of the structure.
    Unknown {
        /// The path given.
        path: KeyPath,
        /// The path that is there and is most alike.
        nearest: Option<KeyPath>,
    },
    /// The path leads to a later place of a shared node, whose leaves are those of its first place.
    Alias {
        /// The path given.
        path: KeyPath,
        /// The path of the same leaf below the first place.
        first: KeyPath,
    },
    /// The place has no entry.
    Missing(KeyPath),
    /// The place has more than one entry.
    Twice(KeyPath),
    /// One entry is below another, which is a leaf.
    BelowLeaf {
        /// The path of the one below.
        path: KeyPath,
        /// The path of the leaf.
        leaf: KeyPath,
    },
}

impl fmt::Display for PlaceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { path, nearest } => {
                write!(f, "{} is not there", path.or_root())?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean `{}`?", nearest.or_root()),
                    None => Ok(()),
                }
            }
            Self::Alias { path, first } => write!(
                f,
                "{} is the same leaf as {}; give it there, once",
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
