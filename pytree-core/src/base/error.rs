//! The errors of tree operations. Each error lists all mismatches, not only the first.

mod difference;
mod place;
mod reference;
mod registration;
mod roles;
mod selection;
mod shapes;
mod text;

use thiserror::Error;

use self::text::{list, list_of_paths, no_static, no_steps, some_paths, suggestion};
use crate::base::path::KeyPath;

pub use self::difference::{Difference, DifferenceKind, LeafMismatch, MergeProblem, PrefixMisfit};
pub use self::place::PlaceProblem;
pub use self::reference::{Access, ReferenceError, Unrepeated, Writer};
pub use self::registration::RegistrationProblem;
pub use self::roles::MissingRoles;
pub use self::selection::SelectionMistake;
pub use self::shapes::{ShapeError, ShapeMismatch};
pub use self::text::VisitProblem;
pub(crate) use self::text::{
    behind_a_reference, cycle_in_a_tree, quoted, too_deep, weak_in_a_tree, wrong_visit,
};

/// The error of an operation on trees. If an operation returns an error, it has changed nothing.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The shapes of arrays do not match the named axes of a module.
    #[error(transparent)]
    Shapes(#[from] ShapeError),
    /// The number of passed leaves differs from the number of leaves of the treedef.
    #[error(
        "{doing}: expected {expected} leaves, found {found}{}; pass one leaf for each `*` of the treedef",
        .first_missing.as_ref().map(|path| format!(" (the first missing leaf is {})", path.or_root())).unwrap_or_default()
    )]
    LeafCount {
        /// The operation, as named at the beginning of the message.
        doing: &'static str,
        /// The number of leaves of the treedef.
        expected: usize,
        /// The number of leaves that were passed.
        found: usize,
        /// The path of the first missing leaf, if too few leaves were passed.
        first_missing: Option<KeyPath>,
    },
    /// Some leaves have a wrong type.
    #[error("{doing}: {}", list(.mismatches))]
    LeafTypes {
        /// The operation, as named at the beginning of the message.
        doing: &'static str,
        /// All leaves of a wrong type.
        mismatches: Vec<LeafMismatch>,
    },
    /// The type of a node of the treedef differs from the type of the value to be built.
    #[error("cannot build {expected} at {}: the treedef has {found} there; use the treedef of a value of the same type", .path.or_root())]
    NodeType {
        /// The path of the node.
        path: KeyPath,
        /// The name of the type to be built. If `found` would show the same name, both texts also contain the fields or
        /// the Rust types.
        expected: String,
        /// A description of the node that the treedef has at this path.
        found: String,
    },
    /// The number of children of a node differs from the number that the node's type requires.
    #[error("cannot build `{node}` at {}: expected {expected} children, found {found}; use the treedef of a value of the same type", .path.or_root())]
    Arity {
        /// The path of the node.
        path: KeyPath,
        /// The name of the node.
        node: &'static str,
        /// The number of children that the type requires.
        expected: usize,
        /// The number of children in the treedef.
        found: usize,
    },
    /// The type of a static value differs from the type of its field.
    #[error("cannot build the value at {}: expected a static value of type `{expected}`, found a value of another type; use the treedef of a value of the same type", .path.or_root())]
    StaticType {
        /// The path of the node.
        path: KeyPath,
        /// The type of the field.
        expected: &'static str,
    },
    /// Some leaves of a part cannot be written, because no reference contains these leaves.
    #[error("cannot update references: no reference contains {}; pass only leaves that are in references, and change other leaves in the value itself", list(.paths))]
    NotInReference {
        /// The paths of the leaves that no reference contains.
        paths: Vec<KeyPath>,
    },
    /// A value is already dereferenced: it contains plain values instead of references.
    #[error("cannot dereference a value that is already dereferenced: it contains a plain value instead of a reference at {}; pass the value with its references, or first rebuild the references with `refs::reref`", list_of_paths(.paths))]
    Dereferenced {
        /// The paths of the plain values.
        paths: Vec<KeyPath>,
    },
    /// A reference is used where its use is not allowed, or another thread has written it.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Two trees have different structures.
    #[error("{doing}: the trees differ in {}", list(.differences))]
    Structure {
        /// The operation, as named at the beginning of the message.
        doing: &'static str,
        /// All differences, from the root down.
        differences: Vec<Difference>,
    },
    /// A tree is not a prefix of another tree.
    #[error("{doing}: the first tree is not a prefix: {}; pass a prefix: the full tree, or a copy of it in which leaves replace some subtrees", list(.misfits))]
    Prefix {
        /// The operation, as named at the beginning of the message.
        doing: &'static str,
        /// All differences, from the root down.
        misfits: Vec<PrefixMisfit>,
    },
    /// A path does not lead to a subtree.
    #[error("no subtree at {}: {} is {found}{}", .path.or_root(), .reached.or_root(), suggestion(.nearest.as_ref()))]
    NoSubtree {
        /// The requested path.
        path: KeyPath,
        /// The longest prefix of the path that leads to a node.
        reached: KeyPath,
        /// The kind of node at `reached`.
        found: String,
        /// The path of a child of the node at `reached`: the child whose key is most similar to the next key in `path`.
        nearest: Option<KeyPath>,
    },
    /// A tree cannot be transposed.
    #[error("cannot transpose: expected the outer structure with the inner structure in place of each leaf; the tree differs in {}", list(.differences))]
    Transpose {
        /// All differences between the expected structure and the tree, from the root down.
        differences: Vec<Difference>,
    },
    /// Parts cannot be merged into a whole tree.
    #[error("cannot merge: {}; pass the parts of one tree, so that each leaf is in exactly one part", list(.problems))]
    Merge {
        /// Each leaf that is in no part or in several parts, and each difference between the structures of the parts.
        problems: Vec<MergeProblem>,
    },
    /// The entries of a flat state or of pure dictionaries do not match the leaves of the structure.
    #[error("{doing}: {}", list(.problems))]
    Places {
        /// The operation, as named at the beginning of the message.
        doing: &'static str,
        /// All entries and leaves that do not match, each with the reason.
        problems: Vec<PlaceProblem>,
    },
    /// Leaves cannot be popped, because the types of their parents require them.
    #[error("cannot pop leaves that the type of the model requires: {}; put each of them into an `Option`, a `Vec` or a map, or exclude it from the filter", list(.paths))]
    Held {
        /// The paths of the leaves that cannot be popped.
        paths: Vec<KeyPath>,
    },
    /// Some leaves are not accepted by any filter.
    #[error("cannot split: no filter accepts {}; add `Filter::everything()` as the last filter, which accepts all other leaves", list(.paths))]
    Unassigned {
        /// The paths of the leaves that no filter accepts.
        paths: Vec<KeyPath>,
    },
    /// Filters follow a filter that accepts every leaf.
    #[error("`Filter::everything()` accepts all leaves, so no leaves are left for the filters after it: {}; put `Filter::everything()` last", .filters.join(" and "))]
    AfterEverything {
        /// The displayed forms of the filters after `Filter::everything()`.
        filters: Vec<String>,
    },
    /// A shared leaf has different flags at two of its paths.
    #[error("cannot split by flags: the shared leaf at {} has a different flag at another path; give the leaf the same flag at all its paths", .path.or_root())]
    FlagsDiffer {
        /// The later of the two paths.
        path: KeyPath,
    },
    /// A filter that must select at least one leaf selects none.
    #[error("the filter {filter} selects no leaf{}", no_steps(.misspelt, *.parameters, *.states))]
    NothingSelected {
        /// The displayed form of the filter.
        filter: String,
        /// The number of parameters of the tree.
        parameters: usize,
        /// The number of states of the tree.
        states: usize,
        /// The names in the filter that no path contains, each with the most similar name in the paths.
        misspelt: Vec<(String, Option<String>)>,
    },
    /// The fields of some leaves do not declare what the module does with each axis.
    #[error(
        "cannot distinguish the inputs from the outputs of {}; declare one role for each axis: `input`, `output`, `input_head`, `output_head`, `kernel`, `item`, `batch`, or `feature` for an axis whose features are scaled or shifted one by one",
        list(.missing)
    )]
    Roles {
        /// The leaves, each with the field that contains it.
        missing: Vec<MissingRoles>,
    },
    /// An operation on a module whose fields are registered at run time failed.
    #[error("cannot {doing} the module `{module}`: {}", list(.problems))]
    Registration {
        /// The operation that failed, as named in the message.
        doing: &'static str,
        /// The name of the module.
        module: String,
        /// All reasons why the operation failed.
        problems: Vec<RegistrationProblem>,
    },
    /// No leaf is present at the requested path.
    #[error("no leaf at {}{}", .path.or_root(), suggestion(.nearest.as_ref()))]
    NoLeaf {
        /// The requested path.
        path: KeyPath,
        /// The most similar existing path.
        nearest: Option<KeyPath>,
    },
    /// A path leads to a node, but a leaf is expected.
    #[error("{} is a node, and not a leaf; write the path of a leaf below it: {}", .path.or_root(), some_paths(.leaves))]
    NotALeaf {
        /// The requested path.
        path: KeyPath,
        /// The paths of all leaves below the node.
        leaves: Vec<KeyPath>,
    },
    /// A path leads to neither a node nor a leaf.
    #[error("no node or leaf at {}{}", .path.or_root(), suggestion(.nearest.as_ref()))]
    NoNode {
        /// The requested path.
        path: KeyPath,
        /// The most similar existing path.
        nearest: Option<KeyPath>,
    },
    /// A path leads to a static field, which is neither a node nor a leaf.
    #[error(
        "{path} is a static field, which is part of the structure and not a leaf; assign the field in the model, or set it with `edit::set_static`"
    )]
    StaticField {
        /// The requested path.
        path: KeyPath,
    },
    /// The filter selects no static field of the given type.
    #[error("cannot set a static field of type `{value}`: {}", no_static(.filter, .places))]
    NoStatic {
        /// The type of the value to be set.
        value: String,
        /// The displayed form of the filter.
        filter: String,
        /// The paths of all static fields of the type `value`.
        places: Vec<KeyPath>,
    },
    /// A value cannot replace a value of another type.
    #[error(
        "cannot put a `{value}` at {}: {}; pass a value of the type that the model has at this path",
        .path.or_root(), unfit(.problem)
    )]
    Replacement {
        /// The path of the value to be replaced.
        path: KeyPath,
        /// The type of the new value.
        value: String,
        /// The reason why the model cannot be built with the new value.
        problem: Box<Self>,
    },
    /// A selector does not select a leaf or a node of the model.
    #[error("cannot {} the selected `{selected}`: {mistake}", .mistake.doing())]
    Selection {
        /// The selected type.
        selected: String,
        /// The reason why nothing is selected.
        mistake: SelectionMistake,
    },
    /// The length of a vector differs from the number of elements of all leaves.
    #[error(
        "cannot unravel: expected a vector of shape [{expected}], found {found:?}; pass a vector as long as the one that `ravel` returned"
    )]
    Unravel {
        /// The number of elements of all leaves.
        expected: usize,
        /// The shape of the vector.
        found: Vec<usize>,
    },
    /// A leaf is in another part of the partition.
    #[error("the leaf at {} is absent: either the leaf is in another part of the partition, or this part is a gradient and the loss does not depend on the leaf", .path.or_root())]
    InAnotherPart {
        /// The requested path.
        path: KeyPath,
    },
    /// Typed values are nested too deep.
    #[error(
        "{}", crate::base::error::too_deep(*.limit, .path)
    )]
    TooDeep {
        /// The greatest allowed depth, in nodes.
        limit: usize,
        /// The path of the first node that is nested too deep.
        path: KeyPath,
    },
    /// A value that is visited as a tree contains itself.
    #[error("{}", crate::base::error::cycle_in_a_tree(.path, .back))]
    Cycle {
        /// The path at which the value occurs again, inside of itself.
        path: KeyPath,
        /// The path of the first occurrence of the value.
        back: KeyPath,
    },
    /// A value that is visited as a tree contains a weak edge with a target. Only graph functions accept such an edge.
    #[error("{}", crate::base::error::weak_in_a_tree(.path))]
    WeakEdge {
        /// The path of the edge.
        path: KeyPath,
    },
    /// Leaves cannot be borrowed, because they are behind a reference.
    #[error("{}", crate::base::error::behind_a_reference(.path))]
    BehindReference {
        /// The path of the reference.
        path: KeyPath,
    },
    /// A leaf in a trait object or in a tree of mixed leaves does not have the type that the function needs.
    #[error(
        "cannot flatten: expected every leaf to be of type {expected}, found {found}; this leaf is in a trait object, or in a tree whose leaves have several types; pass `&mixed(&value)`, whose leaves are all `AnyLeaf`, or use `flatten_any`"
    )]
    LeafType {
        /// The type that the function needs.
        expected: String,
        /// The type of the leaf.
        found: String,
    },
    /// The `visit` of an impl of `Pytree` announces other nodes than it visits.
    #[error("{}", crate::base::error::wrong_visit(.path, .types, .problem))]
    WrongVisit {
        /// The path of the node.
        path: KeyPath,
        /// The types whose `visit` may be wrong: the type of the node, and the types of the last nodes in it.
        types: Vec<String>,
        /// What is wrong.
        problem: VisitProblem,
    },
    /// A value was flattened, but cannot be built again from the result, because its `visit` and `unflatten` disagree.
    #[error(
        "cannot build a `{value}` from its own nodes and leaves: {problem}; make `visit` and `unflatten` in the impl of `Pytree` use the same nodes, static values and leaves in the same order"
    )]
    NotRebuilt {
        /// The type of the value.
        value: String,
        /// The reason why the value cannot be built.
        problem: Box<Self>,
    },
    /// A value was built again from its nodes and leaves, and differs, because its `visit` and `unflatten` disagree.
    #[error(
        "a `{value}` changes when it is built again from its own nodes and leaves: {difference}; make `visit` and `unflatten` in the impl of `Pytree` use the same nodes, static values and leaves in the same order"
    )]
    ChangedByRebuilding {
        /// The type of the value.
        value: String,
        /// The differences between the value and the value that was built again.
        difference: String,
    },
    /// Two walks over a value visit different numbers of leaves.
    #[error(
        "`each_pair` visits {paired} leaves of a `{value}`, and `map_leaves` visits {mapped}; make both methods of the impl of `PytreeOf` visit each leaf once"
    )]
    OtherWalk {
        /// The type of the value.
        value: String,
        /// The number of leaves that `each_pair` visits.
        paired: usize,
        /// The number of leaves that `map_leaves` visits.
        mapped: usize,
    },
    /// An `unflatten` has not read all static values of a structure.
    #[error(
        "{read} of {stored} static values were read; make `unflatten` in the impl of `Pytree` for {types} call `aux` for each static value that `visit` passes to `aux`"
    )]
    StaticsUnread {
        /// The number of static values that were read.
        read: usize,
        /// The number of static values in the structure.
        stored: usize,
        /// The types with static values.
        types: String,
    },
    /// A model has no node or leaf of the type that is to be changed.
    #[error(
        "cannot change nodes of type `{expected}`: the model has no node or leaf of that type, and its leaves have the types {leaves}; to set a static field, use `edit::set_static`; if the model may have no such node, check this first with `edit::paths_of`"
    )]
    NoNodeOfType {
        /// The type of the nodes to be changed.
        expected: String,
        /// The types of the leaves, as a list.
        leaves: String,
    },
    /// A text is not a valid key path.
    #[error(
        "cannot parse the key path `{text:.200}`: expected {expected} at byte {position}; a path looks like `layers[0].weight` or `['a'][1].x`"
    )]
    PathSyntax {
        /// The text that cannot be parsed.
        text: String,
        /// The position of the first invalid byte.
        position: usize,
        /// The expected text at this position.
        expected: &'static str,
    },
    /// A static value cannot be built: its treedef was read from bytes, which hold only the displayed text of the
    /// value.
    #[error("cannot build the value at {}: the treedef was read from bytes, which hold only the text `{text}` of this `{type_name}`; unflatten with a treedef that was not read from bytes", .path.or_root())]
    OpaqueStatic {
        /// The path of the node.
        path: KeyPath,
        /// The type of the static value.
        type_name: String,
        /// The text of the static value.
        text: String,
    },
    /// The bytes are not a valid treedef.
    #[error(
        "cannot read a treedef: expected {expected} at byte {position}, found {found}; pass all bytes that `TreeDef::to_bytes` returned, unchanged"
    )]
    Bytes {
        /// The position of the first invalid byte.
        position: usize,
        /// The expected data at this position.
        expected: String,
        /// The data at this position.
        found: String,
    },
    /// A node of a dynamic tree cannot be built from its children.
    #[error("cannot build a {node}: {reason}")]
    Build {
        /// The name of the node.
        node: &'static str,
        /// The reason why the node cannot be built.
        reason: String,
    },
}

pytree_base::debug_as_display!(TreeError);

impl TreeError {
    /// Returns whether the error is a conflict: a reference was written after the failed call had read it. The call may
    /// be repeated; see [`boundary::repeated`](crate::references::boundary::repeated).
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Reference(ReferenceError::Conflict { .. }))
    }

    /// Returns whether the error is a conflict with a write on the same thread. If a call writes the reference itself,
    /// for instance in a callback, it does so again when it is repeated.
    pub fn is_own_conflict(&self) -> bool {
        let Self::Reference(ReferenceError::Conflict { writer, .. }) = self else {
            return false;
        };
        *writer == Writer::SameThread
    }

    /// If the error is about the number or the types of leaves, replaces the operation that its message names by `now`.
    pub(crate) fn while_doing(mut self, now: &'static str) -> Self {
        if let Self::LeafCount { doing, .. } | Self::LeafTypes { doing, .. } = &mut self {
            *doing = now;
        }
        self
    }
}

/// Formats the reason why a value cannot replace another value.
fn unfit(problem: &TreeError) -> String {
    match problem {
        TreeError::NodeType {
            path,
            expected,
            found,
        } => format!("at {}: expected {expected}, found {found}", path.or_root()),
        TreeError::Arity {
            path,
            node,
            expected,
            found,
        } => format!(
            "at {}: expected {expected} children of `{node}`, found {found}",
            path.or_root()
        ),
        TreeError::StaticType { path, expected } => format!(
            "at {}: expected a static value of type `{expected}`, found a value of another type",
            path.or_root()
        ),
        TreeError::LeafTypes { mismatches, .. } => list(mismatches),
        other => other.to_string(),
    }
}
