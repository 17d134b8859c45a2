//! The common suffix of several structures: the smallest structure that has each of them as a prefix.
//!
//! In the common suffix, each leaf of a structure is replaced by the subtree of another structure at the same position.
//! The common suffix exists if the nodes above the leaves agree, as defined in [prefix](super::prefix).

use super::build::Builder;
use super::prefix::Fit;
use super::structure::TreeDef;
use crate::base::error::{Difference, TreeError};
use crate::node::shape::NodeKind;

impl TreeDef {
    /// Returns the smallest structure that has both structures as prefixes.
    ///
    /// Each leaf of either structure is replaced by the subtree of the other structure at the same position. Where
    /// neither structure has a leaf, both must have the same node.
    ///
    /// As for prefixes, the comparison skips `Some`, shared nodes and boxed objects. If both structures have a leaf at
    /// a position, or neither has one, the result contains the skipped nodes of this structure or, if there are none,
    /// the skipped nodes of `other`.
    ///
    /// # Errors
    /// Returns [`TreeError::Structure`] with all differences if there is no common suffix.
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

    /// Returns the same as [`broadcast_to_common_suffix`](Self::broadcast_to_common_suffix), but `None` instead of an
    /// error.
    pub(crate) fn common_suffix(&self, other: &Self) -> Option<Self> {
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
                    (left, right) = (a + 1, other.view(right).end());
                }
                (false, true) => {
                    builder.subtree(&self.subtree(left));
                    (left, right) = (self.view(left).end(), b + 1);
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

    /// Returns the first node at or below `node` that is not transparent (displayed as its only child).
    fn core(&self, node: usize) -> usize {
        let below = self.0.nodes[node..].iter();
        let passed = below.take_while(|node| node.shape.kind.is_transparent());
        node + passed.count()
    }

    fn is_leaf_at(&self, node: usize) -> bool {
        self.view(node).kind() == NodeKind::Leaf
    }
}

pub(crate) fn no_common_suffix(differences: Vec<Difference>) -> TreeError {
    TreeError::Structure {
        doing: "cannot broadcast to a common suffix, because all trees must have the same node wherever none of them has a leaf",
        differences,
    }
}
