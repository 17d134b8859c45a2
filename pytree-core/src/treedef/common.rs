//! The common suffix of structures: what each of them becomes where another goes on below its leaves.
//!
//! It is the least structure of which all are prefixes, so it exists where the nodes above the leaves agree, in the
//! sense that [prefixes](super::prefix) have.

use super::{Builder, Fit, TreeDef};
use crate::base::error::{Difference, TreeError};
use crate::node::shape::NodeKind;

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

    /// The first node at or below another that is not transparent.
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
        doing: "cannot broadcast to a common suffix, which needs the same nodes wherever no tree has a leaf",
        differences,
    }
}
