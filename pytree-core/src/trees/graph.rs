//! Functions that visit a shared node once and keep the sharing.
//!
//! A [`Shared`](crate::Shared) node or a [`Ref`](crate::Ref) that is at two places has its leaves listed once, at the
//! first place, and is one node again in a value built by these functions. A node may contain itself. The functions of
//! [`tree`](mod@crate::tree) visit a shared node at each of its places. Without shared nodes the two modules agree.
//!
//! [`flatten`] and [`flatten_any`] read all references at one instant, and so do the functions made of them, such as
//! [`partition::split`](crate::partition::split) and [`partition::filter`](crate::partition::filter). The others read one
//! reference after the other; of these, `map` and `map2` call code of the user while they read.
//!
//! # Panics
//! All functions that visit a value panic if it is nested more than 256 nodes deep.
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

use crate::base::error::TreeError;
use crate::base::path::{Key, KeyPath};
use crate::contract::flatten::Sharing;
use crate::contract::pytree::{Pytree, PytreeOf};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::treedef::TreeDef;
use crate::trees::dynamic::{Subtree, Tree};
use crate::trees::functions;

/// How these functions visit shared nodes.
const SHARING: Sharing = Sharing::Preserve;

/// As [`tree::leaves`](crate::tree::leaves); a shared node is visited once.
///
/// # Panics
/// As `tree::leaves`.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, graph};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let leaves: Vec<&f64> = graph::leaves(&model);
/// assert_eq!(leaves, [&1.0]);
/// ```
#[inline]
#[track_caller]
pub fn leaves<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Vec<&L> {
    functions::leaves(SHARING, tree)
}

/// As [`tree::any_leaves`](crate::tree::any_leaves); a shared node is visited once.
///
/// # Panics
/// As `tree::any_leaves`.
#[inline]
pub fn any_leaves<T: Pytree + ?Sized>(tree: &T) -> Vec<&dyn Leaf> {
    functions::any_leaves(SHARING, tree)
}

/// As [`tree::structure`](crate::tree::structure); a shared node is visited once.
#[inline]
pub fn structure<T: Pytree + ?Sized>(tree: &T) -> TreeDef {
    functions::structure(SHARING, tree)
}

/// As [`tree::flatten`](crate::tree::flatten); a shared node is visited once.
///
/// # Panics
/// As `tree::flatten`.
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
#[inline]
#[track_caller]
pub fn flatten<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> (Vec<L>, TreeDef) {
    functions::flatten(SHARING, tree)
}

/// As [`tree::flatten_any`](crate::tree::flatten_any); a shared node is visited once.
#[inline]
pub fn flatten_any<T: Pytree + ?Sized>(tree: &T) -> (Vec<AnyLeaf>, TreeDef) {
    functions::flatten_any(SHARING, tree)
}

/// As [`tree::unflatten`](crate::tree::unflatten); a shared node is built once.
///
/// # Errors
/// As `tree::unflatten`.
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
#[inline]
pub fn unflatten<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: Vec<L>,
) -> Result<T, TreeError> {
    crate::contract::unflatten::unflatten(treedef, leaves)
}

/// As [`tree::leaves_with_path`](crate::tree::leaves_with_path); a shared node is visited once.
///
/// # Panics
/// As `tree::leaves_with_path`.
#[inline]
#[track_caller]
pub fn leaves_with_path<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Vec<(KeyPath, &L)> {
    functions::leaves_with_path(SHARING, tree)
}

/// As [`tree::map`](crate::tree::map); a shared node is visited once.
///
/// # Panics
/// As `tree::map`.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, graph};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let doubled = graph::map(&model, |leaf: &f64| 2.0 * leaf);
/// assert!(*doubled.0 == 2.0 && doubled.0.same(&doubled.1));
/// ```
#[inline]
#[track_caller]
pub fn map<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, function: impl FnMut(&L) -> L) -> T {
    functions::map(SHARING, tree, function)
}

/// As [`tree::map_to`](crate::tree::map_to); a shared node is visited once.
///
/// # Panics
/// As `tree::map_to`.
#[inline]
#[track_caller]
pub fn map_to<L: Leaf + Clone, T: PytreeOf<L>, U>(
    tree: &T,
    function: impl FnMut(&L) -> U,
) -> Tree<U> {
    functions::map_to(SHARING, tree, function)
}

/// As [`tree::map_with_path`](crate::tree::map_with_path); a shared node is visited once.
///
/// # Panics
/// As `tree::map_with_path`.
#[inline]
#[track_caller]
pub fn map_with_path<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
    function: impl FnMut(&KeyPath, &L) -> L,
) -> T {
    functions::map_with_path(SHARING, tree, function)
}

/// As [`tree::map2`](crate::tree::map2); a shared node is visited once.
///
/// # Errors
/// As `tree::map2`.
///
/// # Panics
/// As `tree::map2`.
#[inline]
#[track_caller]
pub fn map2<L: Leaf + Clone, T: PytreeOf<L>, M: Leaf + Clone, U: PytreeOf<M>>(
    tree: &T,
    other: &U,
    function: impl FnMut(&L, &M) -> L,
) -> Result<T, TreeError> {
    functions::map2(SHARING, tree, other, function)
}

/// As [`tree::map2_any`](crate::tree::map2_any); a shared node is visited once.
///
/// # Errors
/// As `tree::map2_any`.
#[inline]
pub fn map2_any<T: Pytree, U: Pytree + ?Sized>(
    tree: T,
    other: &U,
    function: impl FnMut(AnyLeaf, &dyn Leaf) -> AnyLeaf,
) -> Result<T, TreeError> {
    functions::map2_any(SHARING, tree, other, function)
}

/// As [`tree::reduce`](crate::tree::reduce); a shared node is visited once.
///
/// # Panics
/// As `tree::reduce`.
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

/// As [`tree::reduce_associative`](crate::tree::reduce_associative); a shared node is visited once.
///
/// # Panics
/// As `tree::reduce_associative`.
#[inline]
#[track_caller]
pub fn reduce_associative<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
    function: impl FnMut(L, L) -> L,
) -> Option<L> {
    functions::dynamic::<L, T>(SHARING, tree).reduce_associative(function)
}

/// As [`tree::all`](crate::tree::all); a shared node is visited once.
///
/// # Panics
/// As `tree::all`.
#[track_caller]
pub fn all<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, predicate: impl FnMut(&L) -> bool) -> bool {
    leaves::<L, T>(tree).into_iter().all(predicate)
}

/// As [`tree::any`](crate::tree::any); a shared node is visited once.
///
/// # Panics
/// As `tree::any`.
#[track_caller]
pub fn any<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, predicate: impl FnMut(&L) -> bool) -> bool {
    leaves::<L, T>(tree).into_iter().any(predicate)
}

/// As [`tree::all_leaves`](crate::tree::all_leaves); a shared node is visited once.
#[inline]
pub fn all_leaves<'a, T: Pytree>(values: impl IntoIterator<Item = &'a T>) -> bool {
    functions::all_leaves(SHARING, values)
}

/// As [`tree::flatten_one_level`](crate::tree::flatten_one_level); a shared node is visited once.
#[inline]
pub fn flatten_one_level<T: Pytree + ?Sized>(tree: &T) -> Option<Vec<(Option<Key>, Tree)>> {
    functions::flatten_one_level(SHARING, tree)
}

/// As [`tree::leaves_where`](crate::tree::leaves_where); a shared node is visited once.
///
/// # Panics
/// As `tree::leaves_where`.
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

/// As [`tree::map_subtrees`](crate::tree::map_subtrees); a shared node is visited once.
///
/// # Panics
/// As `tree::map_subtrees`.
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

/// As [`tree::transpose`](crate::tree::transpose); a shared node is visited once.
///
/// # Errors
/// As `tree::transpose`.
///
/// # Panics
/// As `tree::transpose`.
#[inline]
#[track_caller]
pub fn transpose<T: PytreeOf<L>, U: Pytree, L: Leaf + Clone>(
    value: &T,
    outer: &TreeDef,
    inner: Option<&TreeDef>,
) -> Result<U, TreeError> {
    functions::transpose(SHARING, value, outer, inner)
}
