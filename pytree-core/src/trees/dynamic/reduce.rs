//! Reductions of a tree's leaves to one value, and transposition.

use pytree_base::bug::{LEAVES, expect_at};

use super::Tree;
use crate::base::error::TreeError;
use crate::node::shape::NodeKind;
use crate::treedef::{Fit, TreeDef};

impl<L> Tree<L> {
    /// Combines all leaves into one value, from the first to the last.
    pub fn reduce<A>(&self, start: A, function: impl FnMut(A, &L) -> A) -> A {
        self.leaves.iter().fold(start, function)
    }

    /// Combines all leaves, starting with the first leaf. Returns `None` if there are no leaves. See
    /// [`reduce`](Self::reduce).
    pub fn reduce_without_start(&self, function: impl FnMut(L, &L) -> L) -> Option<L>
    where
        L: Clone,
    {
        let (first, rest) = self.leaves.split_first()?;
        Some(rest.iter().fold(first.clone(), function))
    }

    /// Combines all leaves by an associative function. Returns `None` if there are no leaves.
    ///
    /// The first half of the leaves is combined, then the second half, then the two results, and each half is combined
    /// in the same way. So rounding errors grow only with the logarithm of the number of leaves.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let tree = tree!([["a", "b"], "c", {"d": "d", "e": "e"}]).map(|leaf| leaf.downcast_ref::<&str>().unwrap().to_string());
    /// let combined = tree.reduce_associative(|left, right| format!("({left}{right})"));
    /// assert_eq!(combined.unwrap(), "((ab)(c(de)))");
    /// ```
    pub fn reduce_associative(&self, mut function: impl FnMut(L, L) -> L) -> Option<L>
    where
        L: Clone,
    {
        halves(&self.leaves, &mut function)
    }

    /// Combines all leaves by an associative function on several threads. The leaves are combined in the same order as
    /// by [`reduce_associative`](Self::reduce_associative), so the results are equal bit for bit.
    pub fn reduce_associative_in_parallel(&self, function: impl Fn(L, L) -> L + Sync) -> Option<L>
    where
        L: Clone + Send + Sync,
    {
        halves_in_parallel(&self.leaves, &function, pytree_base::platform::threads())
    }

    /// Returns whether `predicate` is true for all leaves. Returns `true` if there are no leaves.
    pub fn all(&self, predicate: impl FnMut(&L) -> bool) -> bool {
        self.leaves.iter().all(predicate)
    }

    /// Returns whether `predicate` is true for any leaf.
    pub fn any(&self, predicate: impl FnMut(&L) -> bool) -> bool {
        self.leaves.iter().any(predicate)
    }

    /// Transposes a tree of trees: a tree of the structure `outer` whose leaves are trees of the structure `inner`
    /// becomes a tree of the structure `inner` whose leaves are trees of the structure `outer`. If `inner` is `None`,
    /// the structure of the subtree at the first leaf of `outer` is used instead.
    ///
    /// # Errors
    /// [`TreeError::Transpose`] with all differences, if this is not a tree of the structure `outer` whose leaves are
    /// trees of the structure `inner`. If `inner` is `None`: [`TreeError::Prefix`] if `outer` is not a prefix of this
    /// tree, and [`TreeError::Build`] if `outer` has no leaves.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let tree = tree!([{"loss": 1, "norm": 2}, {"loss": 3, "norm": 4}]);
    /// let transposed = tree.transpose(tree!([0, 0]).treedef(), None)?;
    /// assert_eq!(transposed.to_string(), "{'loss': [1, 3], 'norm': [2, 4]}");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn transpose(&self, outer: &TreeDef, inner: Option<&TreeDef>) -> Result<Self, TreeError>
    where
        L: Clone,
    {
        let inner = match inner {
            Some(inner) => inner.clone(),
            None => match outer.flatten_up_to(self)?.into_iter().next() {
                Some(first) => first.treedef,
                None => {
                    return Err(TreeError::Build {
                        node: "transposed tree",
                        reason: "the inner structure is unknown, because the outer structure has no leaves; pass the inner structure".to_owned(),
                    });
                }
            },
        };
        let expected = outer.compose(&inner);
        if expected != self.treedef {
            return Err(TreeError::Transpose {
                differences: expected.misfits(&self.treedef, Fit::Equal),
            });
        }
        let (rows, columns) = (outer.num_leaves(), inner.num_leaves());
        let leaves = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| row * columns + column))
            .map(|position| expect_at(&self.leaves, position, LEAVES).clone())
            .collect();
        Ok(Self::from_parts(inner.compose(outer), leaves))
    }

    /// Returns whether the tree is a leaf.
    pub fn is_leaf(&self) -> bool {
        self.treedef.kind() == NodeKind::Leaf
    }
}

fn halves<L: Clone>(leaves: &[L], function: &mut impl FnMut(L, L) -> L) -> Option<L> {
    match leaves {
        [] => None,
        [leaf] => Some(leaf.clone()),
        _ => {
            let (left, right) = leaves.split_at(leaves.len() / 2);
            let left = halves(left, function)?;
            let right = halves(right, function)?;
            Some(function(left, right))
        }
    }
}

/// Combines leaves in the order of [`halves`]. The first half is computed on another thread if `threads` is at least 2.
fn halves_in_parallel<L: Clone + Send + Sync>(
    leaves: &[L],
    function: &(impl Fn(L, L) -> L + Sync),
    threads: usize,
) -> Option<L> {
    if threads < 2 || leaves.len() < 4 {
        return halves(leaves, &mut |left, right| function(left, right));
    }
    let (left, right) = leaves.split_at(leaves.len() / 2);
    let (left, right) = std::thread::scope(|scope| {
        let left = scope.spawn(|| halves_in_parallel(left, function, threads / 2));
        let right = halves_in_parallel(right, function, threads - threads / 2);
        match left.join() {
            Ok(left) => (left, right),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    Some(function(left?, right?))
}
