//! Functions that visit a shared node once and preserve the sharing.
//!
//! The leaves of a [`Shared`](crate::Shared) node or a [`Ref`](crate::Ref) with two paths are listed once, at the first
//! path. In a value that these functions build, the node is a single node again. A node may contain itself. The
//! functions of [`tree`](mod@crate::tree) visit a shared node at each of its paths. Without shared nodes the two
//! modules agree.
//!
//! [`flatten`] and [`flatten_any`] read all references at one instant. The functions that call these two functions also
//! do so, such as [`partition::split`](crate::partition::split) and [`partition::filter`](crate::partition::filter).
//! The other functions read one reference after the other. `map` and `map2` call the user's function between two reads.
//!
//! # Panics
//! All functions that visit a value panic if the value is nested more than 256 nodes deep. A transparent node, such as
//! `Some`, counts as an eighth of a node.
//!
//! # Examples
//! ```
//! use pytree_core::{Shared, graph};
//! let embedding = Shared::new(1.0);
//! let model = (embedding.clone(), embedding);
//! let leaves: Vec<&f64> = graph::leaves(&model);
//! assert_eq!(leaves, [&1.0]);
//! let doubled = graph::map(&model, |weight: &f64| 2.0 * weight);
//! assert_eq!(*doubled.0, 2.0);
//! assert!(doubled.0.same(&doubled.1));
//! ```

use pytree_base::bug::expect_some;
use pytree_derive::panicking_twin;

pub use super::convert::{ConvertError, convert};
use crate::base::error::TreeError;
use crate::base::path::{KeyPath, PathKey};
use crate::contract::flatten::Sharing;
use crate::contract::pytree::{Pytree, PytreeOf};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::references::boundary::with_any_leaves;
use crate::treedef::TreeDef;
use crate::trees::dynamic::{Subtree, Tree};
use crate::trees::functions;

/// The functions of this module visit a shared node once.
const SHARING: Sharing = Sharing::Preserve;

/// Returns the leaves in order, by reference. Visits a shared node once.
///
/// See [`tree::leaves`](crate::tree::leaves).
///
/// # Panics
/// In the same cases as `tree::leaves`.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, graph};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let leaves: Vec<&f64> = graph::leaves(&model);
/// assert_eq!(leaves, [&1.0]);
/// ```
///
/// # Errors
/// The errors of [`tree::try_leaves`](crate::tree::try_leaves), except `Cycle` and `WeakEdge`.
#[inline]
#[panicking_twin(leaves)]
pub fn try_leaves<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Result<Vec<&L>, TreeError> {
    functions::leaves(SHARING, tree)
}

/// Returns the leaves in order, by reference. The leaves may have any types. Visits a shared node once.
///
/// See [`tree::any_leaves`](crate::tree::any_leaves).
///
/// # Panics
/// In the same cases as `tree::any_leaves`.
///
/// # Errors
/// The errors of [`tree::try_any_leaves`](crate::tree::try_any_leaves), except `Cycle` and `WeakEdge`.
#[inline]
#[panicking_twin(any_leaves)]
pub fn try_any_leaves<T: Pytree + ?Sized>(tree: &T) -> Result<Vec<&dyn Leaf>, TreeError> {
    functions::any_leaves(SHARING, tree)
}

/// Returns the structure of a value as a treedef. Visits a shared node once.
///
/// See [`tree::structure`](crate::tree::structure).
///
/// # Errors
/// The errors of [`tree::try_structure`](crate::tree::try_structure), except `Cycle` and `WeakEdge`.
#[doc(alias = "nnx.graphdef")]
#[inline]
#[panicking_twin(structure)]
pub fn try_structure<T: Pytree + ?Sized>(tree: &T) -> Result<TreeDef, TreeError> {
    functions::structure(SHARING, tree)
}

/// Returns the leaves in order, and the structure. Visits a shared node once.
///
/// See [`tree::flatten`](crate::tree::flatten).
///
/// # Panics
/// In the same cases as `tree::flatten`.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, graph};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let (leaves, structure): (Vec<f64>, _) = graph::flatten(&model);
/// assert_eq!(leaves, [1.0]);
/// assert_eq!(structure, graph::structure(&model));
/// ```
///
/// # Errors
/// The errors of [`tree::try_flatten`](crate::tree::try_flatten), except `Cycle` and `WeakEdge`.
#[doc(alias = "nnx.flatten")]
#[inline]
#[panicking_twin(flatten)]
pub fn try_flatten<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
) -> Result<(Vec<L>, TreeDef), TreeError> {
    functions::flatten(SHARING, tree)
}

/// Returns the leaves in order, and the structure. The leaves may have any types. Visits a shared node once.
///
/// See [`tree::flatten_any`](crate::tree::flatten_any).
///
/// # Errors
/// The errors of [`tree::try_flatten_any`](crate::tree::try_flatten_any), except `Cycle` and `WeakEdge`.
#[inline]
#[panicking_twin(flatten_any)]
pub fn try_flatten_any<T: Pytree + ?Sized>(tree: &T) -> Result<(Vec<AnyLeaf>, TreeDef), TreeError> {
    functions::flatten_any(SHARING, tree)
}

/// Returns the result of `function`, which is called with the leaves, by reference and in order, and the structure. The leaves may
/// have any types. Visits a shared node once, and reads all references at one instant.
///
/// # Errors
/// The errors of [`try_structure`].
///
/// # Examples
/// ```
/// use pytree_core::{Leaf, Ref, graph};
/// let model = (Ref::new(1.0_f32), 2_i64);
/// let types = graph::try_with_any_leaves(&model, |leaves, _| leaves.iter().map(|leaf| leaf.type_name()).collect::<Vec<_>>())?;
/// assert_eq!(types, ["f32", "i64"]);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
pub fn try_with_any_leaves<R>(
    tree: &dyn Pytree,
    function: impl FnOnce(&[&dyn Leaf], &TreeDef) -> R,
) -> Result<R, TreeError> {
    let (mut function, mut result) = (Some(function), None);
    with_any_leaves(tree, &mut |leaves, treedef| {
        result = function.take().map(|function| function(leaves, treedef));
    })?;
    Ok(expect_some(result, "a call with the leaves"))
}

/// Builds a value from a structure and its leaves. Builds a shared node once.
///
/// See [`tree::unflatten`](crate::tree::unflatten).
///
/// # Errors
/// The errors of `tree::unflatten`.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, graph};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let (leaves, structure): (Vec<f64>, _) = graph::flatten(&model);
/// let built: (Shared<f64>, Shared<f64>) = graph::unflatten(&structure, leaves)?;
/// assert!(built.0.same(&built.1));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[doc(alias = "nnx.unflatten")]
#[inline]
pub fn unflatten<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: Vec<L>,
) -> Result<T, TreeError> {
    crate::contract::unflatten::unflatten(treedef, leaves)
}

/// Returns the leaves with their paths, in order. Visits a shared node once.
///
/// See [`tree::leaves_with_path`](crate::tree::leaves_with_path).
///
/// # Panics
/// In the same cases as `tree::leaves_with_path`.
#[doc(alias = "nnx.to_flat_state")]
#[inline]
#[track_caller]
pub fn leaves_with_path<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Vec<(KeyPath, &L)> {
    functions::leaves_with_path(SHARING, tree)
}

/// Applies `function` to each leaf. Visits a shared node once.
///
/// See [`tree::map`](crate::tree::map).
///
/// # Panics
/// In the same cases as `tree::map`.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, graph};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let doubled = graph::map(&model, |leaf: &f64| 2.0 * leaf);
/// assert!(*doubled.0 == 2.0 && doubled.0.same(&doubled.1));
/// ```
#[doc(alias = "nnx.map")]
#[inline]
#[track_caller]
pub fn map<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, function: impl FnMut(&L) -> L) -> T {
    functions::map(SHARING, tree, function)
}

/// Applies `function` to each leaf and returns a tree of the results. Visits a shared node once.
///
/// See [`tree::map_to`](crate::tree::map_to).
///
/// # Panics
/// In the same cases as `tree::map_to`.
#[inline]
#[track_caller]
pub fn map_to<L: Leaf + Clone, T: PytreeOf<L>, U>(
    tree: &T,
    function: impl FnMut(&L) -> U,
) -> Tree<U> {
    functions::map_to(SHARING, tree, function)
}

/// Applies `function` to each leaf and its path. Visits a shared node once.
///
/// See [`tree::map_with_path`](crate::tree::map_with_path).
///
/// # Panics
/// In the same cases as `tree::map_with_path`.
#[inline]
#[track_caller]
pub fn map_with_path<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
    function: impl FnMut(&KeyPath, &L) -> L,
) -> T {
    functions::map_with_path(SHARING, tree, function)
}

/// Applies `function` to the pairs of leaves of two trees. Visits a shared node once.
///
/// See [`tree::map2`](crate::tree::map2).
///
/// # Errors
/// The errors of `tree::map2`.
///
/// # Panics
/// In the same cases as `tree::map2`.
#[inline]
#[track_caller]
pub fn map2<L: Leaf + Clone, T: PytreeOf<L>, M: Leaf + Clone, U: PytreeOf<M>>(
    tree: &T,
    other: &U,
    function: impl FnMut(&L, &M) -> L,
) -> Result<T, TreeError> {
    functions::map2(SHARING, tree, other, function)
}

/// Applies `function` to the pairs of leaves of two trees with leaves of any types. Visits a shared node once.
///
/// See [`tree::map2_any`](crate::tree::map2_any).
///
/// # Errors
/// The errors of `tree::map2_any`.
#[inline]
pub fn map2_any<T: Pytree, U: Pytree + ?Sized>(
    tree: T,
    other: &U,
    function: impl FnMut(AnyLeaf, &dyn Leaf) -> AnyLeaf,
) -> Result<T, TreeError> {
    functions::map2_any(SHARING, tree, other, function)
}

/// Combines all leaves into one value, from the first to the last. Visits a shared node once.
///
/// See [`tree::reduce`](crate::tree::reduce).
///
/// # Panics
/// In the same cases as `tree::reduce`.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, graph};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let sum = graph::reduce(&model, 0.0, |sum, leaf: &f64| sum + leaf);
/// assert_eq!(sum, 1.0);
/// ```
#[track_caller]
pub fn reduce<L: Leaf + Clone, T: PytreeOf<L>, A>(
    tree: &T,
    start: A,
    function: impl FnMut(A, &L) -> A,
) -> A {
    leaves::<L, T>(tree).into_iter().fold(start, function)
}

/// Combines all leaves by an associative function. Visits a shared node once.
///
/// See [`tree::reduce_associative`](crate::tree::reduce_associative).
///
/// # Panics
/// In the same cases as `tree::reduce_associative`.
#[inline]
#[track_caller]
pub fn reduce_associative<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
    function: impl FnMut(L, L) -> L,
) -> Option<L> {
    functions::dynamic::<L, T>(SHARING, tree).reduce_associative(function)
}

/// Returns whether `predicate` is true for all leaves. Visits a shared node once.
///
/// See [`tree::all`](crate::tree::all).
///
/// # Panics
/// In the same cases as `tree::all`.
#[track_caller]
pub fn all<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, predicate: impl FnMut(&L) -> bool) -> bool {
    leaves::<L, T>(tree).into_iter().all(predicate)
}

/// Returns whether `predicate` is true for any leaf. Visits a shared node once.
///
/// See [`tree::any`](crate::tree::any).
///
/// # Panics
/// In the same cases as `tree::any`.
#[track_caller]
pub fn any<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, predicate: impl FnMut(&L) -> bool) -> bool {
    leaves::<L, T>(tree).into_iter().any(predicate)
}

/// Returns whether each of the values is a leaf. Visits a shared node once.
///
/// See [`tree::all_leaves`](crate::tree::all_leaves).
#[inline]
#[track_caller]
pub fn all_leaves<'a, T: Pytree>(values: impl IntoIterator<Item = &'a T>) -> bool {
    functions::all_leaves(SHARING, values)
}

/// Returns the children of the root with their keys. Visits a shared node once.
///
/// See [`tree::flatten_one_level`](crate::tree::flatten_one_level).
#[inline]
#[track_caller]
pub fn flatten_one_level<T: Pytree + ?Sized>(tree: &T) -> Option<Vec<(Option<PathKey>, Tree)>> {
    functions::flatten_one_level(SHARING, tree)
}

/// Returns the subtrees for which `is_leaf` is true, and the leaves outside of these subtrees. Visits a shared node
/// once.
///
/// See [`tree::leaves_where`](crate::tree::leaves_where).
///
/// # Panics
/// In the same cases as `tree::leaves_where`.
#[inline]
#[track_caller]
pub fn leaves_where<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
    is_leaf: impl FnMut(&Subtree<'_, L>) -> bool,
) -> Vec<Tree<L>> {
    functions::dynamic::<L, T>(SHARING, tree)
        .cut(is_leaf)
        .into_parts()
        .0
}

/// Applies `function` to the subtrees for which `is_leaf` is true, and to the leaves outside of these subtrees. Visits
/// a shared node once.
///
/// See [`tree::map_subtrees`](crate::tree::map_subtrees).
///
/// # Panics
/// In the same cases as `tree::map_subtrees`.
#[inline]
#[track_caller]
pub fn map_subtrees<L: Leaf + Clone, T: PytreeOf<L>, U>(
    tree: &T,
    is_leaf: impl FnMut(&Subtree<'_, L>) -> bool,
    function: impl FnMut(&Tree<L>) -> U,
) -> Tree<U> {
    functions::dynamic::<L, T>(SHARING, tree)
        .cut(is_leaf)
        .map(function)
}

/// Transposes a tree of trees. Visits a shared node once.
///
/// See [`tree::transpose`](crate::tree::transpose).
///
/// # Errors
/// The errors of `tree::transpose`.
///
/// # Panics
/// In the same cases as `tree::transpose`.
#[inline]
#[track_caller]
pub fn transpose<T: PytreeOf<L>, U: Pytree, L: Leaf + Clone>(
    value: &T,
    outer: &TreeDef,
    inner: Option<&TreeDef>,
) -> Result<U, TreeError> {
    functions::transpose(SHARING, value, outer, inner)
}
