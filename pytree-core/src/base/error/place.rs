//! The reasons why entries do not match the leaves of a structure.

use std::fmt;

use crate::base::path::KeyPath;

/// The reason why the entries of a flat state or of pure dictionaries do not match the leaves of a structure.
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
    /// The path leads through a later occurrence of a shared node. The leaves of the node are listed only below its
    /// first path.
    Alias {
        /// The given path.
        path: KeyPath,
        /// The path of the same leaf below the first path of the node.
        first: KeyPath,
    },
    /// The leaf at this path has no entry.
    Missing(KeyPath),
    /// The leaf at this path has more than one entry.
    Twice(KeyPath),
    /// The path of an entry continues below another entry, which is a leaf.
    BelowLeaf {
        /// The longer path.
        path: KeyPath,
        /// The path of the entry that is a leaf.
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
                "{} and {} are the same leaf; pass the leaf once, at the second path",
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
