//! Trees that are prefixes of other trees, and the broadcasting of trees to their common suffix: the smallest structure
//! that has all of them as prefixes.

use pytree_base::bug::expect_next;

use crate::base::error::TreeError;
use crate::treedef::{Fit, Meeting, TreeDef, no_common_suffix};
use crate::trees::dynamic::Tree;

/// The invariant of a walk through a prefix and its subtrees. The message of a panic names this invariant.
const FITS: &str = "one item for each leaf of a prefix";

/// Taking the subtrees at the leaves of a prefix.
impl TreeDef {
    /// Returns the subtree of `tree` at each leaf of this prefix.
    ///
    /// # Errors
    /// [`TreeError::Prefix`] with all differences, if this is not a prefix of the tree's structure.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let subtrees = tree!({"a": 0, "b": 0}).treedef().flatten_up_to(&tree!({"a": [1, 2], "b": None}))?;
    /// assert_eq!(format!("{subtrees:?}"), "[[1, 2], None]");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[doc(alias = "jax.tree_util.PyTreeDef.flatten_up_to")]
    pub fn flatten_up_to<L: Clone>(&self, tree: &Tree<L>) -> Result<Vec<Tree<L>>, TreeError> {
        self.subtrees_of(tree).ok_or_else(|| TreeError::Prefix {
            doing: "cannot take the subtrees at the leaves of a prefix",
            misfits: self.prefix_misfits(tree.treedef(), None),
        })
    }

    /// Returns the same as [`flatten_up_to`](Self::flatten_up_to), but `None` instead of an error.
    fn subtrees_of<L: Clone>(&self, tree: &Tree<L>) -> Option<Vec<Tree<L>>> {
        let mut subtrees = Vec::with_capacity(self.num_leaves());
        let mut leaves = tree.leaves();
        let mut fits = true;
        self.walk_with(tree.treedef(), Fit::Prefix, |meeting| {
            match meeting {
                Meeting::Leaf { full } => {
                    let treedef = tree.treedef().subtree(full);
                    let count = treedef.num_leaves().min(leaves.len());
                    let (own, rest) = leaves.split_at(count);
                    leaves = rest;
                    subtrees.push(Tree::from_parts(treedef, own.to_vec()));
                }
                Meeting::Differ { .. } => fits = false,
            }
            fits
        });
        fits.then_some(subtrees)
    }
}

/// Operations on a tree that is a prefix of one or several full trees.
impl<L> Tree<L> {
    /// Broadcasts this prefix to the structure `full`: copies each leaf of the prefix to every leaf of the subtree of
    /// `full` at the same position.
    ///
    /// # Errors
    /// [`TreeError::Prefix`] with all differences, if this is not a prefix of `full`.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let full = tree!([(1, 2), {"a": 3, "b": None}]);
    /// assert_eq!(tree!([7, 8]).broadcast_to(full.treedef())?.to_string(), "[(7, 7), {'a': 8, 'b': None}]");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[doc(alias = "jax.tree.broadcast")]
    pub fn broadcast_to(&self, full: &TreeDef) -> Result<Self, TreeError>
    where
        L: Clone,
    {
        if let Some(leaves) = self.spread(full) {
            let leaves = leaves.into_iter().cloned().collect();
            return Ok(Self::from_parts(full.clone(), leaves));
        }
        Err(TreeError::Prefix {
            doing: "cannot broadcast",
            misfits: self.treedef().prefix_misfits(full, None),
        })
    }

    /// Returns, for each leaf of the structure `full`, the leaf of this prefix at or above its position. Returns `None`
    /// if this tree is not a prefix of `full`.
    pub(super) fn spread(&self, full: &TreeDef) -> Option<Vec<&L>> {
        let mut leaves = Vec::with_capacity(full.num_leaves());
        let mut own = self.leaves().iter();
        let mut fits = true;
        self.treedef().walk_with(full, Fit::Prefix, |meeting| {
            match meeting {
                Meeting::Leaf { full: node } => {
                    let count = full.view(node).num_leaves();
                    leaves.extend(std::iter::repeat_n(expect_next(&mut own, FITS), count));
                }
                Meeting::Differ { .. } => fits = false,
            }
            fits
        });
        fits.then_some(leaves)
    }

    /// Applies `function` to each leaf and the corresponding subtrees of the trees in `rest`, and returns a tree of the
    /// results. This tree must be a prefix of each tree in `rest`.
    ///
    /// # Errors
    /// [`TreeError::Prefix`] with all differences in all trees of `rest`.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let rest = [tree!({"a": [1, 2], "b": 3}), tree!({"a": 4, "b": (5,)})];
    /// let shown = tree!({"a": "x", "b": "y"}).map_with(&rest, |leaf, rest| format!("{leaf} {rest:?}"))?;
    /// assert_eq!(shown.leaves(), ["'x' [[1, 2], 4]", "'y' [3, (5,)]"]);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn map_with<M: Clone, U>(
        &self,
        rest: &[Tree<M>],
        mut function: impl FnMut(&L, &[Tree<M>]) -> U,
    ) -> Result<Tree<U>, TreeError> {
        let prefix = self.treedef();
        let mut columns = Vec::with_capacity(rest.len());
        let mut misfits = Vec::new();
        for (position, tree) in rest.iter().enumerate() {
            if let Some(subtrees) = prefix.subtrees_of(tree) {
                columns.push(subtrees.into_iter());
            } else {
                misfits.extend(prefix.prefix_misfits(tree.treedef(), Some(position)));
            }
        }
        if !misfits.is_empty() {
            return Err(TreeError::Prefix {
                doing: "cannot map trees together",
                misfits,
            });
        }
        let leaves = self.leaves().iter().map(|leaf| {
            let subtrees: Vec<Tree<M>> = columns
                .iter_mut()
                .map(|column| expect_next(column, FITS))
                .collect();
            function(leaf, &subtrees)
        });
        let leaves = leaves.collect();
        Ok(Tree::from_parts(prefix.clone(), leaves))
    }
}

/// Operations on trees that are broadcast to a common structure.
impl<L> Tree<L> {
    /// Broadcasts both trees to their common structure, which [`TreeDef::broadcast_to_common_suffix`] returns. If the
    /// other tree has a subtree at the position of a leaf, the leaf is copied to every leaf of this subtree.
    ///
    /// # Errors
    /// [`TreeError::Structure`] with all conflicts, if there is no common structure.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let (left, right) = tree!([1, (2, 3), 4]).broadcast_common(&tree!([5, 6, (7, 8)]))?;
    /// assert_eq!(left.to_string(), "[1, (2, 3), (4, 4)]");
    /// assert_eq!(right.to_string(), "[5, (6, 6), (7, 8)]");
    /// let error = tree!([1, [2]]).broadcast_common(&tree!([[3], (4,)])).unwrap_err();
    /// assert!(error.to_string().ends_with("node type at [1]: a list of 1 against a tuple of 1"));
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[doc(alias = "optree.tree_broadcast_common")]
    pub fn broadcast_common<M: Clone>(&self, other: &Tree<M>) -> Result<(Self, Tree<M>), TreeError>
    where
        L: Clone,
    {
        let suffix = self.treedef().broadcast_to_common_suffix(other.treedef())?;
        Ok((self.broadcast_to(&suffix)?, other.broadcast_to(&suffix)?))
    }

    /// Broadcasts this tree and the trees in `rest` to their common structure, applies `function` to the corresponding
    /// leaves, and returns a tree of the results.
    ///
    /// # Errors
    /// [`TreeError::Structure`] with all conflicts, if there is no common structure. Each tree of `rest` is compared
    /// with the common structure of the trees before it.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Tree;
    /// let tree = |numbers: Vec<i64>| Tree::list(numbers.into_iter().map(Tree::leaf).collect());
    /// let sums = Tree::leaf(100).broadcast_map(&[tree(vec![1, 2]), Tree::leaf(10)], |first, rest| {
    ///     first + rest.iter().copied().sum::<i64>()
    /// })?;
    /// assert_eq!(sums.to_string(), "[111, 112]");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[doc(alias = "optree.tree_broadcast_map")]
    pub fn broadcast_map<M, U>(
        &self,
        rest: &[Tree<M>],
        mut function: impl FnMut(&L, &[&M]) -> U,
    ) -> Result<Tree<U>, TreeError> {
        let mut suffix = self.treedef().clone();
        let mut conflicts = Vec::new();
        for (position, tree) in rest.iter().enumerate() {
            if let Some(common) = suffix.common_suffix(tree.treedef()) {
                suffix = common;
                continue;
            }
            for mut conflict in suffix.misfits(tree.treedef(), Fit::CommonSuffix) {
                conflict.right = format!("{} in `rest[{position}]`", conflict.right);
                conflicts.push(conflict);
            }
        }
        let own = self.spread(&suffix);
        let columns: Option<Vec<_>> = rest.iter().map(|tree| tree.spread(&suffix)).collect();
        let (Some(own), Some(columns)) = (own, columns) else {
            return Err(no_common_suffix(conflicts));
        };
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let leaves = own.into_iter().map(|leaf| {
            let row: Vec<&M> = columns
                .iter_mut()
                .map(|column| expect_next(column, FITS))
                .collect();
            function(leaf, &row)
        });
        let leaves = leaves.collect();
        Ok(Tree::from_parts(suffix, leaves))
    }
}
