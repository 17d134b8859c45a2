//! What can go wrong with trees, with all mismatches at once.

mod place;
mod reference;
mod registration;

use std::fmt::{self, Write as _};

use thiserror::Error;

pub use self::place::PlaceProblem;
pub use self::reference::{Access, ReferenceError, Unrepeated};
pub use self::registration::RegistrationProblem;
use crate::base::path::KeyPath;

/// An operation on trees failed; nothing was changed.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The number of leaves does not fit the treedef.
    #[error(
        "{doing}: expected {expected} leaves, found {found}{}; pass one leaf for each `*` of the treedef",
        .first_missing.as_ref().map(|path| format!(" (the first without a leaf is {})", path.or_root())).unwrap_or_default()
    )]
    LeafCount {
        /// What was being done.
        doing: &'static str,
        /// What the treedef asks for.
        expected: usize,
        /// What was given.
        found: usize,
        /// The first place that got no leaf, if there were too few.
        first_missing: Option<KeyPath>,
    },
    /// Leaves are of another type than asked for.
    #[error("{doing}: {}", list(.mismatches))]
    LeafTypes {
        /// What was being done.
        doing: &'static str,
        /// Each leaf that does not fit.
        mismatches: Vec<LeafMismatch>,
    },
    /// A node of the treedef is of another type than the value to be built.
    #[error("cannot build {expected} at {}: the treedef has {found} there; use the treedef of a value of the same type", .path.or_root())]
    NodeType {
        /// Where.
        path: KeyPath,
        /// What is to be built, as messages name it; with fields or types, if the names are the same.
        expected: String,
        /// What the treedef has.
        found: String,
    },
    /// A node has another number of children than its type.
    #[error("cannot build `{node}` at {}: expected {expected} children, found {found}", .path.or_root())]
    Arity {
        /// Where.
        path: KeyPath,
        /// The node.
        node: &'static str,
        /// What the type has.
        expected: usize,
        /// What the treedef has.
        found: usize,
    },
    /// A static value has another type than the field it is for.
    #[error("cannot build the value at {}: a static value is of another type than `{expected}`", .path.or_root())]
    StaticType {
        /// Where.
        path: KeyPath,
        /// The type of the field.
        expected: &'static str,
    },
    /// Leaves of a part are to be written to references and are in none.
    #[error("cannot update references: {} {} in no reference; choose a part that is, or change the value itself", list(.paths), if .paths.len() == 1 { "is" } else { "are" })]
    NotInReference {
        /// Each of them.
        paths: Vec<KeyPath>,
    },
    /// A reference may not be read or written here.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Two trees that should have the same structure have not.
    #[error("{doing}: the trees differ in {}", list(.differences))]
    Structure {
        /// What was being done.
        doing: &'static str,
        /// Each difference, from the root down.
        differences: Vec<Difference>,
    },
    /// A tree is not a prefix of another.
    #[error("{doing}: the first tree is not a prefix: {}; above the leaves of a prefix are the nodes of the full tree, and each leaf replaces a whole subtree", list(.misfits))]
    Prefix {
        /// What was being done.
        doing: &'static str,
        /// Each difference, from the root down.
        misfits: Vec<PrefixMisfit>,
    },
    /// A node was asked for that is nowhere.
    #[error("no subtree at {}: {} is {found}{}", .path.or_root(), .reached.or_root(), suggestion(.nearest.as_ref()))]
    NoSubtree {
        /// The path asked for.
        path: KeyPath,
        /// How far along it there are nodes.
        reached: KeyPath,
        /// What is there.
        found: String,
        /// The path of its child that is most alike.
        nearest: Option<KeyPath>,
    },
    /// A tree cannot be transposed.
    #[error("cannot transpose: the tree is not of the outer structure with the inner one at each leaf: {}", list(.differences))]
    Transpose {
        /// Each difference between what was expected and the tree, from the root down.
        differences: Vec<Difference>,
    },
    /// Parts do not make a whole.
    #[error("cannot merge: {}; merge a part with its own complement", list(.problems))]
    Merge {
        /// Each place that is in no part or in several.
        problems: Vec<MergeProblem>,
    },
    /// The entries of a flat state or of pure dictionaries do not fit their places.
    #[error("{doing}: {}", list(.problems))]
    Places {
        /// What was being done.
        doing: &'static str,
        /// All that is wrong.
        problems: Vec<PlaceProblem>,
    },
    /// Leaves were to be taken out of a model that their places always hold.
    #[error("cannot pop what its place always holds: {}; make the field an `Option`, or a `Vec` or map that it is an item of, or leave it out of the filter", list(.paths))]
    Held {
        /// Each of them.
        paths: Vec<KeyPath>,
    },
    /// Filters leave leaves over.
    #[error("cannot split: no filter accepts {}; end the filters with `Filter::everything()` to take what is left", list(.paths))]
    Unassigned {
        /// Each leaf that no filter accepts.
        paths: Vec<KeyPath>,
    },
    /// Filters come after one that takes every leaf.
    #[error("`Filter::everything()` leaves nothing to the filters after it, {}; put it last", .filters.join(" and "))]
    AfterEverything {
        /// Each filter that comes after it, as it is shown.
        filters: Vec<String>,
    },
    /// A filter that is to choose leaves accepts none.
    #[error("the filter {filter} selects no leaf{}", no_steps(.misspelt))]
    NothingSelected {
        /// The filter.
        filter: String,
        /// The names that no path has a step of, each with the one that is most alike.
        misspelt: Vec<(String, Option<String>)>,
    },
    /// A module whose fields are registered at run time was asked for what it can't do.
    #[error("cannot {doing} the module `{module}`: {}", list(.problems))]
    Registration {
        /// What was being done.
        doing: &'static str,
        /// The name of the module.
        module: String,
        /// All that is wrong.
        problems: Vec<RegistrationProblem>,
    },
    /// A leaf was asked for that is in another part, or nowhere.
    #[error("no leaf at {}{}", .path.or_root(), suggestion(.nearest.as_ref()))]
    NoLeaf {
        /// The path asked for.
        path: KeyPath,
        /// The path that is there and is most alike.
        nearest: Option<KeyPath>,
    },
    /// A node or leaf was asked for that is nowhere.
    #[error("no node or leaf at {}{}", .path.or_root(), suggestion(.nearest.as_ref()))]
    NoNode {
        /// The path asked for.
        path: KeyPath,
        /// The path that is there and is most alike.
        nearest: Option<KeyPath>,
    },
    /// A path leads to a static field, which is neither node nor leaf.
    #[error(
        "{path} is a static field, a part of the structure and no leaf: assign it in the model, or set it by `edit::set_static`"
    )]
    StaticField {
        /// The path asked for.
        path: KeyPath,
    },
    /// A static field was to be set that is nowhere, or nowhere where the filter selects.
    #[error("cannot set what is a `{value}`: {}", no_static(.filter, .places))]
    NoStatic {
        /// The type of the value.
        value: String,
        /// The filter.
        filter: String,
        /// Where there are static fields of that type.
        places: Vec<KeyPath>,
    },
    /// A value was to take a place that is of another type.
    #[error(
        "cannot put a `{value}` at {}: {}; give a value of the type that the model has there",
        .path.or_root(), unfit(.problem)
    )]
    Replacement {
        /// The place.
        path: KeyPath,
        /// The type of the value.
        value: String,
        /// Why the model cannot be built with it.
        problem: Box<Self>,
    },
    /// A selector does not lead to a place of the model.
    #[error("cannot find what the selector selects, a `{selected}`: {mistake}")]
    Selection {
        /// The type selected.
        selected: String,
        /// Why not.
        mistake: SelectionMistake,
    },
    /// A vector of all leaves has another length than the leaves together.
    #[error(
        "cannot unravel: expected a vector of shape [{expected}], found {found:?}; give one as long as that which `ravel` made"
    )]
    Unravel {
        /// The number of elements of all leaves.
        expected: usize,
        /// The shape given.
        found: Vec<usize>,
    },
    /// A leaf is there, but in another part of the partition.
    #[error("the leaf at {} is absent: it is in another part, or, of a gradient, the loss does not depend on it", .path.or_root())]
    InAnotherPart {
        /// The path asked for.
        path: KeyPath,
    },
    /// Typed values nest too deep.
    #[error(
        "{}", crate::base::error::too_deep(*.limit, .path)
    )]
    TooDeep {
        /// The deepest that is allowed, in nodes.
        limit: usize,
        /// Where the first node too deep is.
        path: KeyPath,
    },
    /// A text is not a key path.
    #[error(
        "cannot parse the key path `{text}`: expected {expected} at byte {position}; a path looks like `layers[0].weight` or `['a'][1].x`"
    )]
    PathSyntax {
        /// The text.
        text: String,
        /// Where it stops to make sense.
        position: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// A static value is known by its text only, because its treedef was read from bytes.
    #[error("cannot build the value at {}: of a `{type_name}` that was read from bytes only the text `{text}` is known; unflatten with the treedef of a value", .path.or_root())]
    OpaqueStatic {
        /// Where.
        path: KeyPath,
        /// The type of the static value.
        type_name: String,
        /// What it displays.
        text: String,
    },
    /// Bytes are not a treedef.
    #[error(
        "cannot read a treedef: expected {expected} at byte {position}, found {found}; pass the bytes that `TreeDef::to_bytes` gave, whole and unchanged"
    )]
    Bytes {
        /// Where the bytes stop to make sense.
        position: usize,
        /// What was expected there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A builder of a dynamic tree was given children that do not fit its node.
    #[error("cannot build a {node}: {reason}")]
    Build {
        /// The node.
        node: &'static str,
        /// Why not.
        reason: String,
    },
}

impl fmt::Debug for TreeError {
    /// As it displays: this is what `unwrap` and a program print that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TreeError {
    /// Whether another thread has written a reference while a call ran that had read it. The call may be repeated: see
    /// [`boundary::repeated`](crate::references::boundary::repeated).
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Reference(ReferenceError::Conflict { .. }))
    }

    /// The error with what was being done.
    pub(crate) fn while_doing(mut self, now: &'static str) -> Self {
        if let Self::LeafCount { doing, .. } | Self::LeafTypes { doing, .. } = &mut self {
            *doing = now;
        }
        self
    }
}

/// A leaf of another type than asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafMismatch {
    /// Where.
    pub path: KeyPath,
    /// The type asked for.
    pub expected: String,
    /// The type found.
    pub found: String,
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

/// One way in which two structures differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub path: KeyPath,
    /// What is there in the first tree.
    pub left: String,
    /// What is there in the second.
    pub right: String,
    /// What about it differs.
    pub why: DifferenceKind,
}

/// What differs between two nodes; compared in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The types of the nodes.
    NodeType,
    /// The number of children.
    Arity,
    /// The keys of maps.
    Keys,
    /// The static values.
    Static,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.why {
            DifferenceKind::NodeType => "node type",
            DifferenceKind::Arity => "number of children",
            DifferenceKind::Keys => "keys",
            DifferenceKind::Static => "static value",
        };
        write!(
            f,
            "{what} at {}: {} against {}",
            self.path.or_root(),
            self.left,
            self.right
        )
    }
}

/// Why a value does not fit its place.
fn unfit(problem: &TreeError) -> String {
    match problem {
        TreeError::NodeType {
            path,
            expected,
            found,
        } => format!("at {}: expected {expected}, found {found}", path.or_root()),
        TreeError::LeafTypes { mismatches, .. } => list(mismatches),
        other => other.to_string(),
    }
}

/// Why a selector leads nowhere: a place is found by the addresses of the leaves at and below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SelectionMistake {
    /// There are no leaves at or below it.
    NoLeaves,
    /// Its leaves have the size zero, and with it no address of their own.
    NoSize,
    /// Its leaves are not among those of the model.
    Elsewhere,
}

impl fmt::Display for SelectionMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLeaves => {
                "it has no leaves, and a place is found by its leaves; use `edit::replace_at` with its path, or select the node above it"
            }
            Self::NoSize => {
                "its leaves are of size zero and have no address of their own; use `edit::replace_at` with its path, or select the node above it"
            }
            Self::Elsewhere => {
                "its leaves are not inside the model; select a leaf or a node of the model by reference, not a copy of one or a static field"
            }
        })
    }
}

/// Where a prefix does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixMisfit {
    /// Which of several full trees it does not fit, counted from 0; `None` if there is one only.
    pub tree: Option<usize>,
    /// How the prefix, first, differs from the full tree.
    pub difference: Difference,
}

impl fmt::Display for PrefixMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tree) = self.tree {
            write!(f, "in tree {tree} of the rest: ")?;
        }
        self.difference.fmt(f)
    }
}

/// Why parts do not merge at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeProblem {
    /// The place has a leaf in no part.
    Missing(KeyPath),
    /// The place has a leaf in more than one part.
    Twice(KeyPath),
    /// The parts are of different structures.
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

/// The message of [`TreeError::TooDeep`].
pub(crate) fn too_deep(limit: usize, path: &KeyPath) -> String {
    const SHOWN: usize = 6;
    let start: KeyPath = path.keys().iter().take(SHOWN).cloned().collect();
    let more = if path.keys().len() > SHOWN { "…" } else { "" };
    format!(
        "typed values nest deeper than {limit} nodes at {}{more}: put the parts of a recursive type into a `Vec`, or use a dynamic `Tree`, whose depth has no bound",
        start.or_root()
    )
}

/// The message where leaves of a reference are to be borrowed.
pub(crate) fn behind_a_reference(path: &KeyPath) -> String {
    let place = if path.keys().is_empty() {
        String::new()
    } else {
        format!(" at {path}")
    };
    format!(
        "cannot borrow leaves{place} that are behind a reference: its value may be replaced at any time; use `flatten`, which copies them"
    )
}

/// The message where a tree is asked for and there is a weak edge.
pub(crate) fn weak_in_a_tree(path: &KeyPath) -> String {
    format!(
        "cannot see a tree: the weak edge at {} leads to another place, and trees have no such edges; use the function of `graph` with the same name, which keeps it",
        path.or_root()
    )
}

/// The message where a tree is asked for and there is a cycle.
pub(crate) fn cycle_in_a_tree(path: &KeyPath, back: &KeyPath) -> String {
    format!(
        "cannot see a tree: {} leads back to {}, and trees have no cycles; use the function of `graph` with the same name, which keeps them",
        path.or_root(),
        back.or_root()
    )
}

/// The most items a message lists; the rest is counted.
const LISTED: usize = 20;

fn list<T: fmt::Display>(items: &[T]) -> String {
    let mut text = if items.len() > 1 {
        format!("{} places:", items.len())
    } else {
        String::new()
    };
    for item in items.iter().take(LISTED) {
        if items.len() > 1 {
            text.push_str("\n  ");
        }
        text.push_str(&item.to_string());
    }
    if items.len() > LISTED {
        let _ = write!(text, "\n  and {} more", items.len() - LISTED);
    }
    text
}

fn suggestion(nearest: Option<&KeyPath>) -> String {
    nearest
        .map(|path| format!("; did you mean `{path}`?"))
        .unwrap_or_default()
}

/// Why no static field was selected.
fn no_static(filter: &str, places: &[KeyPath]) -> String {
    if places.is_empty() {
        return "the model has no static field of that type".to_owned();
    }
    format!(
        "the filter {filter} selects no static field of that type, by path alone; there are {}",
        list(places)
    )
}

/// What names of a filter are not there, or else where to look.
fn no_steps(misspelt: &[(String, Option<String>)]) -> String {
    if misspelt.is_empty() {
        return "; choose leaves of a kind and path that are there".to_owned();
    }
    let told = misspelt.iter().map(|(name, nearest)| {
        let nearest = nearest.as_ref().map_or_else(String::new, |nearest| {
            format!("; did you mean `{nearest}`?")
        });
        format!(": no path has a step `{name}`{nearest}")
    });
    told.collect()
}
