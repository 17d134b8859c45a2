//! The dynamic tree: a treedef with its leaves.
//!
//! The structure and the leaves are two flat arrays, even for a tree of a million levels. So functions on dynamic trees
//! do not recurse. A dynamic tree is itself a pytree, with the structure of the value that it was created from.

mod any;
mod builder;
mod macros;
mod nodes;
mod reduce;
mod subtree;

pub use self::builder::TreeBuilder;
pub use self::subtree::Subtree;

use std::fmt;
use std::ops::Index;

use pytree_base::bug::{LEAVES, expect_next};

use crate::base::error::TreeError;
use crate::base::path::{AsKeyPath, KeyPath};
use crate::contract::pytree::{Pytree, PytreeOf, Visitor};
use crate::contract::unflatten::{self, Unflattener};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::treedef::{Fit, Notation, TreeDef};

/// A treedef with its leaves, which may have any type `L`.
///
/// [`map`](Self::map) can change the type of the leaves. The macro [`tree!`](crate::tree!) creates a tree.
///
/// # Examples
/// ```
/// use pytree_core::{tree, Tree};
/// let tree: Tree = tree!([(1, 2), "123", {"1": 1, "2": [4, 5]}]);
/// assert_eq!(tree.to_string(), "[(1, 2), '123', {'1': 1, '2': [4, 5]}]");
/// assert_eq!(tree.treedef().to_string(), "PyTreeDef([(*, *), *, {'1': *, '2': [*, *]}])");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tree<L = AnyLeaf> {
    treedef: TreeDef,
    leaves: Vec<L>,
}

impl<L> Tree<L> {
    /// Creates a tree from a treedef and its leaves.
    ///
    /// # Errors
    /// [`TreeError::LeafCount`] if there are too few or too many leaves.
    pub fn new(treedef: TreeDef, leaves: Vec<L>) -> Result<Self, TreeError> {
        treedef
            .check_count(leaves.len())
            .map_err(|error| error.while_doing("cannot make a tree"))?;
        Ok(Self { treedef, leaves })
    }

    pub(crate) fn from_parts(treedef: TreeDef, leaves: Vec<L>) -> Self {
        debug_assert_eq!(treedef.num_leaves(), leaves.len());
        Self { treedef, leaves }
    }

    /// Creates a tree from one item for each leaf of `treedef`. An item that is `None` makes the leaf absent. An absent
    /// leaf is not the same as the node `None`. For instance, a gradient is a tree with absent leaves.
    ///
    /// If the tree is a part of a value that has absent leaves of its own, pass the structure of the value
    /// [as a whole](TreeDef::as_whole).
    ///
    /// # Errors
    /// [`TreeError::LeafCount`] if `leaves` has too few or too many items.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Tree, tree};
    /// let treedef = tree::structure(&[1.0_f32, 2.0]);
    /// let part = Tree::with_absent(&treedef, vec![None, Some(7.0_f32)])?;
    /// assert_eq!(part.treedef().to_string(), "PyTreeDef([-, *])");
    /// assert_eq!(part["[1]"], 7.0);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn with_absent(treedef: &TreeDef, leaves: Vec<Option<L>>) -> Result<Self, TreeError> {
        treedef
            .check_count(leaves.len())
            .map_err(|error| error.while_doing("cannot make a tree"))?;
        let mut leaves = leaves.into_iter();
        Ok(Self::of_present(treedef, |present| {
            if present {
                expect_next(&mut leaves, LEAVES)
            } else {
                None
            }
        }))
    }

    /// Returns a tree with the structure of `treedef`, in which other leaves may be present. Calls `leaf` for each leaf
    /// in order. `leaf` receives whether the leaf is present in `treedef`, and returns the leaf of the new tree. If
    /// `leaf` returns `None`, the leaf is absent in the new tree.
    fn of_present(treedef: &TreeDef, mut leaf: impl FnMut(bool) -> Option<L>) -> Self {
        let mut kept = Vec::with_capacity(treedef.num_leaves());
        let treedef = treedef.with_presence(|present| {
            let leaf = leaf(present);
            let is_here = leaf.is_some();
            kept.extend(leaf);
            is_here
        });
        Self::from_parts(treedef, kept)
    }

    /// Returns a tree with the structure of `treedef` in which a leaf is present only if `keep` accepts its position.
    pub(crate) fn select(treedef: &TreeDef, leaves: &[L], keep: impl Fn(usize) -> bool) -> Self
    where
        L: Clone,
    {
        let mut leaves = leaves.iter().enumerate();
        Self::of_present(treedef, |present| {
            if !present {
                return None;
            }
            let (position, leaf) = expect_next(&mut leaves, LEAVES);
            keep(position).then(|| leaf.clone())
        })
    }

    /// Creates a tree that consists of a single leaf.
    pub fn leaf(leaf: L) -> Self {
        Self::from_parts(TreeDef::leaf(), vec![leaf])
    }

    /// Returns the structure.
    pub fn treedef(&self) -> &TreeDef {
        &self.treedef
    }

    /// Returns the leaves, in order.
    pub fn leaves(&self) -> &[L] {
        &self.leaves
    }

    /// Returns the leaves mutably, in order.
    pub fn leaves_mut(&mut self) -> &mut [L] {
        &mut self.leaves
    }

    /// Returns the leaves and the structure.
    pub fn into_parts(self) -> (Vec<L>, TreeDef) {
        (self.leaves, self.treedef)
    }

    /// Converts the merged parts of a value, or a part of a value that is itself a part, to the structure of the value.
    pub(crate) fn into_value_form(self) -> Self {
        Self::from_parts(self.treedef.as_value(), self.leaves)
    }

    /// Iterates over the leaves in order, as `for leaf in &tree` does.
    pub fn iter(&self) -> std::slice::Iter<'_, L> {
        self.leaves.iter()
    }

    /// Iterates over the leaves with their paths, in order.
    pub fn iter_with_path(&self) -> impl Iterator<Item = (KeyPath, &L)> {
        self.treedef.leaf_paths().into_iter().zip(&self.leaves)
    }

    /// Applies `function` to each leaf and returns a tree of the results.
    pub fn map<U>(&self, function: impl FnMut(&L) -> U) -> Tree<U> {
        Tree {
            treedef: self.treedef.clone(),
            leaves: self.leaves.iter().map(function).collect(),
        }
    }

    /// Applies `function` to each leaf and the corresponding leaf of `other`, and returns a tree of the results.
    ///
    /// The result has the structure of this tree. Where one tree has a `Some` node, the other tree may have the content
    /// of the `Some` instead, because trees of JAX have no `Some` nodes.
    ///
    /// # Errors
    /// [`TreeError::Structure`] with all differences, if the structures differ.
    pub fn map2<M, U>(
        &self,
        other: &Tree<M>,
        mut function: impl FnMut(&L, &M) -> U,
    ) -> Result<Tree<U>, TreeError> {
        same_but_for_some(
            "cannot map two trees together",
            &self.treedef,
            &other.treedef,
        )?;
        let leaves = self
            .leaves
            .iter()
            .zip(&other.leaves)
            .map(|(left, right)| function(left, right))
            .collect();
        Ok(Tree {
            treedef: self.treedef.clone(),
            leaves,
        })
    }

    /// Returns the leaf at `path`. A leaf in a shared node is found at each path of the node.
    ///
    /// # Errors
    /// - [`TreeError::NoLeaf`] if the path does not exist. The error has the most similar path.
    /// - [`TreeError::NotALeaf`] if the path is that of a node. The error has the leaves below the node.
    /// - [`TreeError::InAnotherPart`] if a filter has moved the leaf to another part.
    /// - [`TreeError::PathSyntax`] if the path is invalid.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Tree, tree};
    /// let tree: Tree<i32> = tree!({"a": [1, 2]}).cast()?;
    /// assert_eq!(tree.get("['a'][1]")?, &2);
    /// assert_eq!(tree["['a'][0]"], 1);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn get(&self, path: &(impl AsKeyPath + ?Sized)) -> Result<&L, TreeError> {
        let position = self.position(&*path.as_key_path()?)?;
        Ok(&self.leaves[position])
    }

    /// Returns the index in `leaves` of the leaf at `path`.
    pub(crate) fn position(&self, path: &KeyPath) -> Result<usize, TreeError> {
        match self.treedef.place_at(path) {
            Some((_, position, true)) => Ok(position),
            Some((_, _, false)) => Err(TreeError::InAnotherPart { path: path.clone() }),
            None => Err(self.treedef.no_leaf(path)),
        }
    }

    /// Returns the children of the root, as trees.
    pub(crate) fn into_children(self) -> Vec<Self> {
        let mut leaves = self.leaves.into_iter();
        self.treedef
            .children()
            .into_iter()
            .map(|treedef| {
                let leaves = leaves.by_ref().take(treedef.num_leaves()).collect();
                Self { treedef, leaves }
            })
            .collect()
    }
}

/// Returns [`TreeError::Structure`] with all differences if two structures differ.
pub(crate) fn same_structure(
    doing: &'static str,
    left: &TreeDef,
    right: &TreeDef,
) -> Result<(), TreeError> {
    same_by(Fit::Equal, doing, left, right)
}

/// Returns [`TreeError::Structure`] with all differences if two structures differ. A `Some` node in one structure may
/// correspond to the content of the `Some` in the other.
pub(crate) fn same_but_for_some(
    doing: &'static str,
    left: &TreeDef,
    right: &TreeDef,
) -> Result<(), TreeError> {
    same_by(Fit::EqualButForSome, doing, left, right)
}

fn same_by(
    fit: Fit,
    doing: &'static str,
    left: &TreeDef,
    right: &TreeDef,
) -> Result<(), TreeError> {
    if left == right {
        return Ok(());
    }
    let differences = left.misfits(right, fit);
    if differences.is_empty() {
        return Ok(());
    }
    Err(TreeError::Structure { doing, differences })
}

/// Conversions between trees and values.
impl<L> Tree<L> {
    /// Returns the tree without `Some` nodes, as in JAX: each `Some` is replaced by its content, unless the content is
    /// another option.
    ///
    /// [`to_value`](Self::to_value) accepts both forms. See [`TreeDef::without_some`].
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Tree, tree};
    /// let value = vec![Some(1), None];
    /// let tree = Tree::from_value(&value).without_some();
    /// assert_eq!(tree.treedef(), tree!([1, None]).treedef());
    /// assert_eq!(tree.to_value::<Vec<Option<i32>>>()?, value);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[must_use]
    pub fn without_some(self) -> Self {
        Self::from_parts(self.treedef.without_some(), self.leaves)
    }
}

impl<L: Leaf + Clone> Tree<L> {
    /// Builds a value from the tree. If the value has an `Option`, the tree may have `None`, a `Some` node or, as in
    /// JAX, the content of the `Some`.
    ///
    /// A number is converted to another type if the conversion does not change its value. Integers are converted to
    /// integers and floats, and floats to floats. Other functions, such as [`cast`](Tree::cast), need leaves of the
    /// exact type.
    ///
    /// # Errors
    /// [`TreeError`] if the structure of the tree does not match `T`, or if a number has no equal value of the type
    /// that `T` needs.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// assert_eq!(tree!([1, 2]).to_value::<Vec<i64>>()?, [1, 2]);
    /// let error = tree!({"a": 1, "b": 300}).to_value::<std::collections::BTreeMap<String, u8>>().unwrap_err();
    /// assert!(error.to_string().ends_with(
    ///     "at ['b']: expected a leaf of type u8, found 300 of type i32, which u8 cannot represent exactly"
    /// ));
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn to_value<T: Pytree>(&self) -> Result<T, TreeError> {
        unflatten::unflatten_converted(&self.treedef, self.leaves.clone())
    }

    /// Builds a value from the tree, without converting numbers; see [`to_value`](Self::to_value).
    pub(crate) fn to_exact_value<T: Pytree>(&self) -> Result<T, TreeError> {
        unflatten::unflatten(&self.treedef, self.leaves.clone())
    }
}

impl<L> Index<&str> for Tree<L> {
    type Output = L;

    /// Returns the leaf at a path.
    ///
    /// # Panics
    /// If [`Tree::get`] returns an error.
    #[track_caller]
    fn index(&self, path: &str) -> &L {
        match self.get(path) {
            Ok(leaf) => leaf,
            Err(error) => panic!("cannot index a tree: {error}"),
        }
    }
}

impl<'a, L> IntoIterator for &'a Tree<L> {
    type Item = &'a L;
    type IntoIter = std::slice::Iter<'a, L>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<L: Leaf> fmt::Display for Tree<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut leaves = self.leaves.iter();
        self.treedef.write_with(f, Notation::Value, |f| {
            expect_next(&mut leaves, LEAVES).display(f)
        })
    }
}
impl<L: fmt::Debug> fmt::Debug for Tree<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut leaves = self.leaves.iter();
        self.treedef.write_with(f, Notation::Value, |f| {
            expect_next(&mut leaves, LEAVES).fmt(f)
        })
    }
}

impl<L: Leaf + Clone> Pytree for Tree<L> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.tree(
            &self.treedef,
            &mut self.leaves.iter().map(|leaf| leaf as &dyn Leaf),
        );
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let (treedef, leaves) = source.subtree()?;
        Ok(Self { treedef, leaves })
    }
}
/// Requires that `Self` is the type `L`, so a `Tree<Self>` is a `Tree<L>`. The trait exists for its compile error,
/// which says how to convert the tree.
#[diagnostic::on_unimplemented(
    message = "expected a `Tree<{L}>`, found a `Tree` whose leaves are of type `{Self}`",
    label = "a tree whose leaves are all `{L}` is needed here",
    note = "convert the tree: `tree.cast::<{L}>()?` returns a `Tree<{L}>`, or an error that lists the other leaves"
)]
pub trait SameLeaf<L>: Sized {
    /// Returns the tree itself.
    fn as_tree(tree: &Tree<Self>) -> &Tree<L>;

    /// Returns the tree itself.
    fn into_tree(tree: Tree<L>) -> Tree<Self>;
}
impl<L> SameLeaf<L> for L {
    fn as_tree(tree: &Tree<L>) -> &Tree<L> {
        tree
    }

    fn into_tree(tree: Tree<L>) -> Tree<L> {
        tree
    }
}

impl<L: Leaf + Clone, K: Leaf + Clone + SameLeaf<L>> PytreeOf<L> for Tree<K> {
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        K::as_tree(self).leaves.iter().for_each(visit);
    }
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        K::into_tree(K::as_tree(self).map(function))
    }
}
