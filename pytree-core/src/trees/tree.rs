//! Functions that visit a shared node at each of its paths, as JAX's `jax.tree` does.
//!
//! The leaves of a [`Shared`](crate::Shared) node or a [`Ref`](crate::Ref) with two paths are listed twice, and a value
//! built by these functions has a separate node at each of the two paths. The functions of [`graph`](crate::graph)
//! preserve the sharing. Without shared nodes the two modules agree.
//!
//! # Panics
//! All functions that visit a value panic if a node contains itself, if a weak edge leads to a node, or if a value is
//! nested more than 256 nodes deep. A transparent node, such as `Some`, counts as an eighth of a node. In a thread with
//! a larger stack, [`depth::with_stack`](crate::depth::with_stack) allows deeper values.
//!
//! [`try_leaves`], [`try_any_leaves`], [`try_structure`], [`try_flatten`] and [`try_flatten_any`] return an error
//! instead of panicking. A function that copies leaves, such as [`map`], panics only where [`try_flatten`] returns an
//! error. A function that borrows leaves, such as [`reduce`], panics only where [`try_leaves`] returns an error. Both
//! kinds of functions also panic if the visit and the unflatten of a handwritten impl of `Pytree` do not agree.
//!
//! # Examples
//! ```
//! use pytree_core::{Shared, tree};
//! let embedding = Shared::new(1.0);
//! let model = (embedding.clone(), embedding);
//! let leaves: Vec<&f64> = tree::leaves(&model);
//! assert_eq!(leaves, [&1.0, &1.0]);
//! let doubled = tree::map(&model, |weight: &f64| 2.0 * weight);
//! assert_eq!((*doubled.0, *doubled.1), (2.0, 2.0));
//! assert!(!doubled.0.same(&doubled.1));
//! ```

use pytree_derive::panicking_twin;

use crate::base::error::TreeError;
use crate::base::path::{KeyPath, PathKey};
use crate::contract::flatten::Sharing;
use crate::contract::pytree::{Pytree, PytreeOf};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::treedef::TreeDef;
use crate::trees::dynamic::{Subtree, Tree};
use crate::trees::functions;

/// The functions of this module visit a shared node at each of its paths.
const SHARING: Sharing = Sharing::Duplicate;

/// Returns the leaves in order, by reference.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type, or if there is a [`Ref`](crate::Ref), whose leaves
/// cannot be borrowed.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, tree};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let leaves: Vec<&f64> = tree::leaves(&model);
/// assert_eq!(leaves, [&1.0, &1.0]);
/// ```
#[doc(alias("jax.tree.leaves", "optree.tree_leaves"))]
#[inline]
#[track_caller]
pub fn leaves<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Vec<&L> {
    let mut leaves = Vec::new();
    tree.each_leaf(&mut |leaf| leaves.push(leaf));
    leaves
}

/// Returns the leaves in order, by reference. The leaves may have any types.
///
/// # Panics
/// If there is a [`Ref`](crate::Ref) in the tree, whose leaves cannot be borrowed.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let leaves = tree::any_leaves(&(1.0, 2));
/// assert_eq!(leaves[1].downcast_ref::<i32>(), Some(&2));
/// ```
///
/// # Errors
/// The errors of [`try_structure`], and [`TreeError::BehindReference`] if a leaf is behind a [`Ref`](crate::Ref), where it
/// cannot be borrowed.
#[inline]
#[panicking_twin(any_leaves)]
pub fn try_any_leaves<T: Pytree + ?Sized>(tree: &T) -> Result<Vec<&dyn Leaf>, TreeError> {
    functions::any_leaves(SHARING, tree)
}

/// Returns the structure of a value as a treedef.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let structure = tree::structure(&(1.0, vec![2, 3]));
/// assert_eq!(structure.to_string(), "PyTreeDef((*, [*, *]))");
/// ```
///
/// # Errors
/// - [`TreeError::Cycle`] if a node contains itself.
/// - [`TreeError::WeakEdge`] if a weak edge leads to a node.
/// - [`TreeError::TooDeep`] if the value is nested too deep.
/// - [`TreeError::Reference`] if a reference may not be read here.
#[doc(alias("jax.tree.structure", "optree.tree_structure"))]
#[inline]
#[panicking_twin(structure)]
pub fn try_structure<T: Pytree + ?Sized>(tree: &T) -> Result<TreeDef, TreeError> {
    functions::structure(SHARING, tree)
}

/// Returns the leaves in order, and the structure.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, tree};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let (leaves, structure): (Vec<f64>, _) = tree::flatten(&model);
/// assert_eq!(leaves, [1.0, 1.0]);
/// assert_eq!(structure, tree::structure(&model));
/// ```
///
/// # Errors
/// The errors of [`try_structure`], and [`TreeError::LeafType`] if a leaf in a trait object has another type.
#[doc(alias("jax.tree.flatten", "optree.tree_flatten"))]
#[inline]
#[panicking_twin(flatten)]
pub fn try_flatten<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
) -> Result<(Vec<L>, TreeDef), TreeError> {
    functions::flatten(SHARING, tree)
}

/// Returns the leaves in order, and the structure. The leaves may have any types.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let (leaves, structure) = tree::flatten_any(&(1.0, 2));
/// assert_eq!(leaves[0].downcast_ref::<f64>(), Some(&1.0));
/// assert_eq!(structure.num_leaves(), 2);
/// ```
///
/// # Errors
/// The errors of [`try_structure`].
#[inline]
#[panicking_twin(flatten_any)]
pub fn try_flatten_any<T: Pytree + ?Sized>(tree: &T) -> Result<(Vec<AnyLeaf>, TreeDef), TreeError> {
    functions::flatten_any(SHARING, tree)
}

/// Returns an error where [`leaves`] panics.
///
/// # Errors
/// The errors of [`try_flatten`], and [`TreeError::BehindReference`] if a leaf is behind a [`Ref`](crate::Ref), where
/// it cannot be borrowed.
pub fn try_leaves<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Result<Vec<&L>, TreeError> {
    functions::leaves(SHARING, tree)
}

/// Builds a value from a structure and its leaves.
///
/// # Errors
/// [`TreeError`] if:
/// - there are too few or too many leaves
/// - the structure does not match `T`
/// - a leaf has a wrong type
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let structure = tree::structure(&(0.0, vec![0.0]));
/// let built: (f64, Vec<f64>) = tree::unflatten(&structure, vec![1.0, 2.0])?;
/// assert_eq!(built, (1.0, vec![2.0]));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[doc(alias("jax.tree.unflatten", "optree.tree_unflatten"))]
#[inline]
pub fn unflatten<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: Vec<L>,
) -> Result<T, TreeError> {
    crate::contract::unflatten::unflatten(treedef, leaves)
}

/// Returns the leaves with their paths, in order.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type, or if there is a [`Ref`](crate::Ref), whose leaves
/// cannot be borrowed.
///
/// # Examples
/// ```
/// use pytree_core::{KeyPath, tree};
/// let model = (1.0, vec![2.0]);
/// let leaves: Vec<(KeyPath, &f64)> = tree::leaves_with_path(&model);
/// assert_eq!(leaves[1], ("[1][0]".parse()?, &2.0));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[doc(alias(
    "jax.tree.leaves_with_path",
    "jax.tree.flatten_with_path",
    "optree.tree_flatten_with_path"
))]
#[inline]
#[track_caller]
pub fn leaves_with_path<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Vec<(KeyPath, &L)> {
    functions::leaves_with_path(SHARING, tree)
}

/// Returns the value with each leaf replaced by the result of `function`.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let doubled = tree::map(&(1.0, vec![2.0]), |leaf: &f64| 2.0 * leaf);
/// assert_eq!(doubled, (2.0, vec![4.0]));
/// ```
#[doc(alias("jax.tree.map", "optree.tree_map"))]
#[inline]
#[track_caller]
pub fn map<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, function: impl FnMut(&L) -> L) -> T {
    functions::map(SHARING, tree, function)
}

/// Applies `function` to each leaf and returns a tree of the results. The results may be of any type.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let is_large = tree::map_to(&(1.0, vec![2.0]), |leaf: &f64| *leaf > 1.5);
/// assert_eq!(is_large.leaves(), [false, true]);
/// ```
#[inline]
#[track_caller]
pub fn map_to<L: Leaf + Clone, T: PytreeOf<L>, U>(
    tree: &T,
    function: impl FnMut(&L) -> U,
) -> Tree<U> {
    functions::map_to(SHARING, tree, function)
}

/// Applies `function` to each leaf and its path, and returns the value with the results as leaves.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let depths = tree::map_with_path(&(1.0, vec![2.0]), |path, _: &f64| path.keys().len() as f64);
/// assert_eq!(depths, (1.0, vec![2.0]));
/// ```
#[doc(alias("jax.tree.map_with_path", "optree.tree_map_with_path"))]
#[inline]
#[track_caller]
pub fn map_with_path<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
    function: impl FnMut(&KeyPath, &L) -> L,
) -> T {
    functions::map_with_path(SHARING, tree, function)
}

/// Applies `function` to each leaf and the corresponding leaf of `other`, and returns the value with the results as
/// leaves. The leaves of `other` may have another type.
///
/// A `Some(x)` in one value matches an `x` in the other, because trees of JAX have no node for `Some`.
///
/// # Errors
/// [`TreeError::Structure`] with all differences, if the structures differ.
///
/// # Panics
/// If a trait object in a tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let (prices, counts) = (vec![2.0, 3.0], vec![10, 20]);
/// let costs = tree::map2(&prices, &counts, |price: &f64, count: &i32| price * f64::from(*count))?;
/// assert_eq!(costs, [20.0, 60.0]);
/// assert!(tree::map2(&prices, &vec![10], |price: &f64, _: &i32| *price).is_err());
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[doc(alias("jax.tree.map", "optree.tree_map"))]
#[inline]
#[track_caller]
pub fn map2<L: Leaf + Clone, T: PytreeOf<L>, M: Leaf + Clone, U: PytreeOf<M>>(
    tree: &T,
    other: &U,
    function: impl FnMut(&L, &M) -> L,
) -> Result<T, TreeError> {
    functions::map2(SHARING, tree, other, function)
}

/// Applies `function` to each leaf and the corresponding leaf of `other`, and returns the value with the results as
/// leaves. The leaves may have any types.
///
/// # Errors
/// - [`TreeError::Structure`] with all differences if the structures differ.
/// - [`TreeError::LeafTypes`] if the type of a leaf that `function` returns differs from the type of the leaf that it
///   replaces.
///
/// # Examples
/// ```
/// use pytree_core::{AnyLeaf, tree};
/// let of_other = tree::map2_any((1.0, 2), &(3.0, 4), |_, other| AnyLeaf::from_boxed(other.clone_boxed()))?;
/// assert_eq!(of_other, (3.0, 4));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[inline]
pub fn map2_any<T: Pytree, U: Pytree + ?Sized>(
    tree: T,
    other: &U,
    function: impl FnMut(AnyLeaf, &dyn Leaf) -> AnyLeaf,
) -> Result<T, TreeError> {
    functions::map2_any(SHARING, tree, other, function)
}

/// Combines all leaves into one value, from the first to the last.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type, or if there is a [`Ref`](crate::Ref), whose leaves
/// cannot be borrowed.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, tree};
/// let weight = Shared::new(1.0);
/// let model = (weight.clone(), weight);
/// let sum = tree::reduce(&model, 0.0, |sum, leaf: &f64| sum + leaf);
/// assert_eq!(sum, 2.0);
/// ```
#[doc(alias("jax.tree.reduce", "optree.tree_reduce"))]
#[track_caller]
pub fn reduce<L: Leaf + Clone, T: PytreeOf<L>, A>(
    tree: &T,
    start: A,
    function: impl FnMut(A, &L) -> A,
) -> A {
    leaves::<L, T>(tree).into_iter().fold(start, function)
}

/// Combines all leaves by an associative function, in halves: see [`Tree::reduce_associative`]. Returns `None` if the
/// tree has no leaves.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let largest = tree::reduce_associative(&(1.0, vec![3.0, 2.0]), f64::max);
/// assert_eq!(largest, Some(3.0));
/// ```
#[doc(alias = "jax.tree.reduce_associative")]
#[inline]
#[track_caller]
pub fn reduce_associative<L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &T,
    function: impl FnMut(L, L) -> L,
) -> Option<L> {
    functions::dynamic::<L, T>(SHARING, tree).reduce_associative(function)
}

/// Returns whether `predicate` is true for all leaves. Returns `true` if there are no leaves.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type, or if there is a [`Ref`](crate::Ref), whose leaves
/// cannot be borrowed.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// assert!(tree::all(&(1.0, vec![2.0]), |leaf: &f64| leaf.is_finite()));
/// ```
#[doc(alias("jax.tree.all", "optree.tree_all"))]
#[track_caller]
pub fn all<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, predicate: impl FnMut(&L) -> bool) -> bool {
    leaves::<L, T>(tree).into_iter().all(predicate)
}

/// Returns whether `predicate` is true for any leaf.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type, or if there is a [`Ref`](crate::Ref), whose leaves
/// cannot be borrowed.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// assert!(!tree::any(&(1.0, vec![2.0]), |leaf: &f64| leaf.is_nan()));
/// ```
#[doc(alias = "optree.tree_any")]
#[track_caller]
pub fn any<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, predicate: impl FnMut(&L) -> bool) -> bool {
    leaves::<L, T>(tree).into_iter().any(predicate)
}

/// Returns whether each of the values is a leaf.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// assert!(tree::all_leaves(&[1.0, 2.0]));
/// assert!(!tree::all_leaves(&[(1.0, 2.0)]));
/// ```
#[doc(alias("jax.tree_util.all_leaves", "optree.all_leaves"))]
#[inline]
#[track_caller]
pub fn all_leaves<'a, T: Pytree>(values: impl IntoIterator<Item = &'a T>) -> bool {
    functions::all_leaves(SHARING, values)
}

/// Returns the children of a value's root with their keys, or `None` if the root is a leaf; see
/// [`Tree::flatten_one_level`].
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let children = tree::flatten_one_level(&(1.0, vec![2.0, 3.0])).unwrap();
/// assert_eq!(children[1].1.to_string(), "[2.0, 3.0]");
/// assert!(tree::flatten_one_level(&1.0).is_none());
/// ```
#[doc(alias = "optree.tree_flatten_one_level")]
#[inline]
#[track_caller]
pub fn flatten_one_level<T: Pytree + ?Sized>(tree: &T) -> Option<Vec<(Option<PathKey>, Tree)>> {
    functions::flatten_one_level(SHARING, tree)
}

/// Returns the subtrees for which `is_leaf` is true, and the leaves outside of these subtrees: see [`Tree::cut`].
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::shape::NodeKind;
/// use pytree_core::{Subtree, tree};
/// let is_list = |subtree: &Subtree<'_, f64>| subtree.kind() == NodeKind::List;
/// let found = tree::leaves_where(&(1.0, vec![2.0, 3.0]), is_list);
/// assert_eq!(found[1].to_string(), "[2.0, 3.0]");
/// ```
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

/// Applies `function` to each subtree for which `is_leaf` is true and to each leaf outside of these subtrees, and
/// returns a tree of the results: see [`Tree::cut`].
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::shape::NodeKind;
/// use pytree_core::{Subtree, tree};
/// let is_list = |subtree: &Subtree<'_, f64>| subtree.kind() == NodeKind::List;
/// let sizes = tree::map_subtrees(&(1.0, vec![2.0, 3.0]), is_list, |subtree| subtree.leaves().len());
/// assert_eq!(sizes.leaves(), [1, 2]);
/// ```
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

/// Transposes the value: exchanges its inner and its outer structure, and returns a value of the type `U`. See
/// [`Tree::transpose`]. The arguments of a generic type are not part of a structure, so a `Vec<Metrics<f64>>` becomes a
/// `Metrics<Vec<f64>>`, and vice versa.
///
/// # Errors
/// The errors of [`Tree::transpose`], or an error if the transposed tree does not have the structure of `U`.
///
/// # Panics
/// If a trait object in the tree holds a leaf of another type.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// let steps = vec![(1.0, 2.0), (3.0, 4.0)];
/// let outer = tree::structure(&vec![0.0, 0.0]);
/// let transposed: (Vec<f64>, Vec<f64>) = tree::transpose::<_, _, f64>(&steps, &outer, None)?;
/// assert_eq!(transposed, (vec![1.0, 3.0], vec![2.0, 4.0]));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[doc(alias("jax.tree.transpose", "optree.tree_transpose"))]
#[inline]
#[track_caller]
pub fn transpose<T: PytreeOf<L>, U: Pytree, L: Leaf + Clone>(
    value: &T,
    outer: &TreeDef,
    inner: Option<&TreeDef>,
) -> Result<U, TreeError> {
    functions::transpose(SHARING, value, outer, inner)
}
