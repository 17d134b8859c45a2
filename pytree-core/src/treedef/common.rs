//! The common suffix of structures: what each of them becomes where another goes on below its leaves.
//!
//! It is the least structure of which all are prefixes, so it exists where the nodes above the leaves agree, in the
//! sense that [prefixes](super::prefix) have.

use super::{Builder, Fit, TreeDef};
use crate::base::error::{Difference, TreeError};
use crate::node::shape::NodeKind;
use crate::trees::dynamic::Tree;

impl TreeDef {
    /// The structure in which each leaf of either structure is replaced by what the other has there: the least of
    /// which both are prefixes. Where neither has a leaf, both need the same node.
    ///
    /// `Some`, shared nodes and boxed objects are looked through, as by prefixes, and are those of this structure
    /// where both go on.
    ///
    /// # Errors
    /// [`TreeError::Structure`] with all conflicts, if there is none.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let (left, right) = (tree!([1, (2, 3), 4]), tree!([5, 6, {"a": 7, "b": None}]));
    /// let suffix = left.treedef().broadcast_to_common_suffix(right.treedef())?;
    /// assert_eq!(suffix.to_string(), "PyTreeDef([*, (*, *), {'a': *, 'b': None}])");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn broadcast_to_common_suffix(&self, other: &Self) -> Result<Self, TreeError> {
        self.common_suffix(other)
            .ok_or_else(|| no_common_suffix(self.misfits(other, Fit::CommonSuffix)))
    }

    /// As [`broadcast_to_common_suffix`](Self::broadcast_to_common_suffix), without reasons.
    fn common_suffix(&self, other: &Self) -> Option<Self> {
        let mut builder = Builder::default();
        let mut open: Vec<u32> = Vec::new();
        let (mut left, mut right) = (0, 0);
        while left < self.num_nodes() && right < other.num_nodes() {
            let (a, b) = (self.core(left), other.core(right));
            if let Some(missing) = open.last_mut() {
                *missing -= 1;
            }
            match (self.is_leaf_at(a), other.is_leaf_at(b)) {
                (true, false) => {
                    builder.subtree(&other.subtree(right));
                    (left, right) = (a + 1, right + other.size_at(right));
                }
                (false, true) => {
                    builder.subtree(&self.subtree(left));
                    (left, right) = (left + self.size_at(left), b + 1);
                }
                (both_leaves, _) => {
                    let (shown, from, to) = if left < a {
                        (self, left, a)
                    } else {
                        (other, right, b)
                    };
                    for node in from..to {
                        builder.node_of(shown, node);
                        open.push(0);
                    }
                    if both_leaves {
                        builder.leaf(self.0.nodes[a].shape);
                    } else {
                        if self.difference_at(other, a, b).is_some() {
                            return None;
                        }
                        builder.node_of(self, a);
                        open.push(self.0.nodes[a].arity);
                    }
                    (left, right) = (a + 1, b + 1);
                }
            }
            while open.last() == Some(&0) {
                open.pop();
                builder.exit();
            }
        }
        (left == self.num_nodes() && right == other.num_nodes()).then(|| builder.finish())
    }

    /// The first node at or below another that is not transparent.
    fn core(&self, node: usize) -> usize {
        let below = self.0.nodes[node..].iter();
        let passed = below.take_while(|node| node.shape.kind.is_transparent());
        node + passed.count()
    }

    fn is_leaf_at(&self, node: usize) -> bool {
        self.view(node).kind() == NodeKind::Leaf
    }

    fn size_at(&self, node: usize) -> usize {
        self.0.nodes[node].size as usize
    }
}

fn no_common_suffix(differences: Vec<Difference>) -> TreeError {
    TreeError::Structure {
        doing: "cannot broadcast to a common suffix, which needs the same nodes wherever no tree has a leaf",
        differences,
    }
}

/// Trees of which each may go on below the leaves of others.
impl<L> Tree<L> {
    /// Both trees with copies of their leaves wherever the other goes on below: of the structure that
    /// [`TreeDef::broadcast_to_common_suffix`] gives.
    ///
    /// # Errors
    /// [`TreeError::Structure`] with all conflicts, if there is no such structure.
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
    pub fn broadcast_common<M: Clone>(&self, other: &Tree<M>) -> Result<(Self, Tree<M>), TreeError>
    where
        L: Clone,
    {
        let suffix = self.treedef().broadcast_to_common_suffix(other.treedef())?;
        Ok((self.broadcast_to(&suffix)?, other.broadcast_to(&suffix)?))
    }

    /// The tree of what `function` makes of the leaves of this tree and of the `rest` at each leaf of their common
    /// suffix.
    ///
    /// # Errors
    /// [`TreeError::Structure`] with all conflicts of all of the `rest`, whose trees are counted from 0. Each tree is
    /// compared with what those before it have in common.
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
                conflict.right = format!("{} in tree {position} of the rest", conflict.right);
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
            let row: Vec<&M> = columns.iter_mut().filter_map(Iterator::next).collect();
            function(leaf, &row)
        });
        let leaves = leaves.collect();
        Ok(Tree::from_parts(suffix, leaves))
    }
}
