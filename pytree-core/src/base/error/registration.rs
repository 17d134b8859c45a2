//! The reasons why operations on registered fields fail.

use std::fmt;

use crate::base::kind::{FieldKind, LeafKind};
use crate::base::path::KeyPath;

/// A problem of an operation on a [`DynamicModule`](crate::DynamicModule).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistrationProblem {
    /// A field with the name `name` already exists.
    Registered {
        /// The name of the field.
        name: String,
        /// The kind of the field. `None` for a subtree.
        kind: Option<FieldKind>,
    },
    /// No field with the name `name` exists.
    NotRegistered {
        /// The requested name.
        name: String,
        /// The most similar name of a field.
        nearest: Option<String>,
    },
    /// A parameter has a leaf that has no gradient.
    NotTrainable {
        /// The path of the leaf, from the module.
        path: KeyPath,
        /// The dtype and shape of the leaf, or its type if it is not an array.
        found: String,
    },
    /// A sub-module has a leaf without a kind.
    WithoutKind {
        /// The path of the leaf, from the module.
        path: KeyPath,
    },
    /// A parameter, a state or a subtree has a leaf with a kind of its own.
    HasKind {
        /// The path of the leaf, from the module.
        path: KeyPath,
        /// The kind of the leaf.
        kind: LeafKind,
    },
    /// The type of a leaf differs from the type of the module's leaves.
    LeafType {
        /// The path of the leaf, from the module.
        path: KeyPath,
        /// The type of the module's leaves.
        expected: String,
        /// The type of the leaf.
        found: String,
    },
    /// A static field was used as a tree.
    StaticField {
        /// The name of the field.
        name: String,
    },
    /// A tree was used as a static field.
    TreeField {
        /// The name of the field.
        name: String,
    },
    /// The type of the value in a static field differs from the requested type.
    StaticType {
        /// The name of the field.
        name: String,
        /// The requested type.
        expected: String,
        /// The value that the field holds.
        found: String,
    },
    /// A name is not an identifier, so a path cannot contain the name.
    NotAName {
        /// The name that is not an identifier.
        name: String,
    },
    /// A tree that should become a module is not a struct.
    NotAStruct {
        /// The kind of the root of the tree.
        found: String,
    },
}

impl fmt::Display for RegistrationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered { name, kind } => write!(
                f,
                "`{name}` is already registered as {}; change its value with `set`, or its kind with `set_kind`",
                kind.map_or("Subtree".to_owned(), |kind| kind.to_string())
            ),
            Self::NotRegistered { name, nearest } => {
                write!(f, "there is no field `{name}`; ")?;
                match nearest {
                    Some(nearest) => write!(f, "did you mean `{nearest}`?"),
                    None => f.write_str("register it first"),
                }
            }
            Self::NotTrainable { path, found } => write!(
                f,
                "at {path}: expected a float array or number, because only floats have gradients, found {found}; give it floats, or make the field a state"
            ),
            Self::WithoutKind { path } => write!(
                f,
                "at {path}: expected a leaf with a kind, found a leaf without a kind; register the value as a parameter, a state or a subtree"
            ),
            Self::HasKind { path, kind } => write!(
                f,
                "at {path}: expected a leaf without a kind, found a leaf of kind {kind}; register the value as a module"
            ),
            Self::LeafType {
                path,
                expected,
                found,
            } => write!(
                f,
                "at {path}: expected a leaf of type {expected}, found {found}"
            ),
            Self::StaticField { name } => write!(
                f,
                "`{name}` is a static field, not a tree; use `get_static` and `set_static`, or register the name again as a tree"
            ),
            Self::TreeField { name } => write!(
                f,
                "`{name}` is a tree, not a static field; use `get` and `set`, or register the name again as a static field"
            ),
            Self::StaticType {
                name,
                expected,
                found,
            } => write!(
                f,
                "the static field `{name}` is {found}, not a value of type `{expected}`; use the type with which the field was registered"
            ),
            Self::NotAName { name } => write!(
                f,
                "the name `{name}` is not an identifier such as `layer_1`, so a path cannot contain it; use a map for arbitrary names"
            ),
            Self::NotAStruct { found } => write!(
                f,
                "expected a struct at the root, found {found}; only structs have fields with names"
            ),
        }
    }
}
