//! The differences between two structures or between two parts. Errors list these differences.

use std::fmt;

use crate::base::path::KeyPath;

/// A leaf of a wrong type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeafMismatch {
    /// The path of the leaf.
    pub path: KeyPath,
    /// The expected type.
    pub expected: String,
    /// The type that was found.
    pub found: String,
}

impl LeafMismatch {
    /// Describes a leaf of a wrong type. For the other crates of pytree.
    #[doc(hidden)]
    pub fn new(path: KeyPath, expected: String, found: String) -> Self {
        Self {
            path,
            expected,
            found,
        }
    }
}

impl fmt::Display for LeafMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {}: expected a leaf of type {}, found {}",
            self.path.or_root(),
            self.expected,
            self.found
        )
    }
}

/// A difference between two structures.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The path of the difference.
    pub path: KeyPath,
    /// The differing property of the node in the first tree, as text.
    pub left: String,
    /// The differing property of the node in the second tree, as text.
    pub right: String,
    /// The kind of the difference.
    pub why: DifferenceKind,
}

/// The kinds of differences between two nodes, in the order of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The types of the nodes differ.
    NodeType,
    /// The numbers of children differ.
    Arity,
    /// The nodes are maps with different keys.
    Keys,
    /// The static values differ.
    Static,
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeType => "node type",
            Self::Arity => "number of children",
            Self::Keys => "keys",
            Self::Static => "static value",
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {}: {} against {}",
            self.why,
            self.path.or_root(),
            self.left,
            self.right
        )
    }
}

/// A difference between a prefix and a full tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefixMisfit {
    /// The index of the full tree in the argument `rest`. `None` if the call has only one full tree.
    pub tree: Option<usize>,
    /// The difference. `left` describes the prefix, and `right` describes the full tree.
    pub difference: Difference,
}

impl fmt::Display for PrefixMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tree) = self.tree {
            write!(f, "in `rest[{tree}]`: ")?;
        }
        self.difference.fmt(f)
    }
}

/// The reason why parts cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeProblem {
    /// The leaf at this path is in no part.
    Missing(KeyPath),
    /// The leaf at this path is in more than one part.
    Twice(KeyPath),
    /// The parts have different structures.
    Structure(Difference),
}

impl fmt::Display for MergeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "{} is in no part", path.or_root()),
            Self::Twice(path) => write!(f, "{} is in more than one part", path.or_root()),
            Self::Structure(difference) => difference.fmt(f),
        }
    }
}
