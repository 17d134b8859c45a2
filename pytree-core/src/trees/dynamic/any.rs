//! Trees of values, and trees whose leaves have different types.

use std::any::type_name;

use super::Tree;
use crate::base::error::{LeafMismatch, TreeError};
use crate::base::text::short_name;
use crate::contract::pytree::{Pytree, PytreeOf};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::trees::tree;

impl Tree<AnyLeaf> {
    /// Creates a tree from a value of any pytree type, with leaves of any types. The content of a reference is copied
    /// to each path of the reference.
    pub fn of<T: Pytree>(value: &T) -> Self {
        let (leaves, treedef) = tree::flatten_any(value);
        Self::from_parts(treedef, leaves)
    }

    /// Casts all leaves to the type `L`, as functions of tensors require.
    ///
    /// # Errors
    /// [`TreeError::LeafTypes`] with each leaf of another type.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Tree, tree};
    /// let numbers: Tree<f64> = tree!({"a": 1.0, "b": [2.0]}).cast()?;
    /// assert_eq!(numbers.map(|number| number * 2.0).to_string(), "{'a': 2.0, 'b': [4.0]}");
    /// let mixed = tree!([1.0, 2]).cast::<f64>().unwrap_err();
    /// assert!(mixed.to_string().ends_with("at [1]: expected a leaf of type f64, found i32"));
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn cast<L: Leaf>(self) -> Result<Tree<L>, TreeError> {
        let (leaves, treedef) = self.into_parts();
        let leaves = leaves.into_iter().map(|leaf| {
            let mut slot: Option<L> = None;
            let outcome = Box::new(leaf).move_into(&mut slot);
            slot.ok_or_else(|| outcome.err().map_or("nothing", |leaf| leaf.type_name()))
        });
        let leaves: Vec<Result<L, &str>> = leaves.collect();
        if leaves.iter().all(Result::is_ok) {
            let leaves = leaves.into_iter().flatten().collect();
            return Ok(Tree::from_parts(treedef, leaves));
        }
        let places = treedef.leaf_paths().into_iter().zip(leaves);
        let mismatches = places.filter_map(|(path, leaf)| {
            Some(LeafMismatch {
                path,
                expected: short_name(type_name::<L>()),
                found: short_name(leaf.err()?),
            })
        });
        Err(TreeError::LeafTypes {
            doing: "cannot cast a tree",
            mismatches: mismatches.collect(),
        })
    }

    /// Applies `function` to each leaf of the type `T`. The other leaves do not change.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let tree = tree!([1.5, "name", 2.5]).map_of(|number: &f64| number * 2.0);
    /// assert_eq!(tree.to_string(), "[3.0, 'name', 5.0]");
    /// ```
    #[must_use]
    pub fn map_of<T: Leaf, U: Leaf>(&self, mut function: impl FnMut(&T) -> U) -> Self {
        self.map(|leaf| match leaf.downcast_ref() {
            Some(leaf) => AnyLeaf::new(function(leaf)),
            None => leaf.clone(),
        })
    }
}

impl<L: Leaf + Clone> Tree<L> {
    /// Converts a value to a tree. A `Some` becomes a node with one child; see [`without_some`](Tree::without_some).
    pub fn from_value<T: PytreeOf<L>>(value: &T) -> Self {
        let (leaves, treedef) = tree::flatten(value);
        Self::from_parts(treedef, leaves)
    }
}
