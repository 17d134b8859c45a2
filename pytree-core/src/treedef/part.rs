//! Parts: treedefs in which some leaves are absent.
//!
//! A part shares its whole: it stores only which leaves are present. The nodes of a part are computed when they are
//! first read. Splitting a tree and merging its parts reads none of them.
//!
//! A value may contain a part of another value, as an optimizer contains moments. Its own absent leaves are then not leaves
//! that a split of the value removes: [`TreeDef::as_whole`] tells them apart, and [`TreeDef::as_value`] is its inverse.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use pytree_base::bug::{LEAVES, expect_next};

use super::node::Node;
use super::structure::{Counts, Nodes, Presence, TreeDef};
use crate::node::shape::NodeKind;

impl TreeDef {
    /// Returns for each leaf, present or absent, in order, whether it is present.
    pub(crate) fn presence(&self) -> Cow<'_, [bool]> {
        if let Some(part) = &self.0.nodes.part {
            return Cow::Borrowed(&part.present);
        }
        if !self.has_absent() {
            return Cow::Owned(vec![true; self.num_leaves()]);
        }
        let places = self.0.nodes.iter().filter(|node| node.is_place());
        let is_present = |node: &Node| node.shape.kind == NodeKind::Leaf;
        Cow::Owned(places.map(is_present).collect())
    }

    /// Returns the whole that this part shares. A treedef that is not a part is its own whole.
    pub(super) fn whole(&self) -> &Self {
        match &self.0.nodes.part {
            Some(part) => &part.whole,
            None => self,
        }
    }

    /// Returns whether any leaf is absent.
    #[inline]
    pub(crate) fn has_absent(&self) -> bool {
        self.0.counts.absent > 0
    }

    /// Returns a copy in which other leaves are present. For each leaf, present or absent, `present` contains whether
    /// the leaf is present in the copy.
    fn with_present(&self, present: Vec<bool>) -> Self {
        let whole = self.whole();
        let leaves = present.iter().filter(|&&present| present).count();
        if leaves == present.len() && leaves == whole.num_leaves() {
            return whole.clone();
        }
        let counts = Counts {
            leaves,
            absent: whole.num_leaves() + whole.0.counts.absent - leaves,
            ..self.0.counts
        };
        let nodes = Nodes {
            computed: OnceLock::new(),
            part: Some(Presence {
                whole: whole.clone(),
                present,
            }),
        };
        let (aux, dynamic) = (Arc::clone(&self.0.aux), Arc::clone(&self.0.dynamic));
        Self::from_counted(nodes, aux, dynamic, counts)
    }

    /// Returns the structure of which the parts of a value with this structure are made: in a part, a leaf that is absent in
    /// the value is not a leaf that another part has. So a [`merge`](crate::partition::merge) does not miss it.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Filter, Partition, Tree, partition, tree};
    /// let part: Partition<Vec<f32>, f32> = partition::filter(&vec![1.0, 2.0], &Filter::path("[1]"));
    /// let treedef = tree::structure(&(part, 3.0_f32));
    /// assert_eq!(treedef.to_string(), "PyTreeDef(([-, *], *))");
    /// let part = Partition::from_tree(Tree::new(treedef.as_whole(), vec![2.0, 3.0])?);
    /// let merged: (Partition<Vec<f32>, f32>, f32) = partition::merge([part])?;
    /// assert_eq!(merged.0.leaves(), [2.0]);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[must_use]
    pub fn as_whole(&self) -> Self {
        self.with_splits(|splits| splits + 1)
    }

    /// Returns the structure of the value that parts of this structure form together; see [`as_whole`](Self::as_whole). A
    /// leaf that a split of the value has removed stays absent.
    #[must_use]
    pub(crate) fn as_value(&self) -> Self {
        self.with_splits(|splits| splits.saturating_sub(1))
    }

    /// Changes, for each absent leaf, the number of splits of the values that already lacked the leaf.
    pub(crate) fn with_splits(&self, change: impl Fn(u32) -> u32) -> Self {
        if !self.has_absent() {
            return self.clone();
        }
        let nodes = self.0.nodes.iter().map(|node| match node.shape.kind {
            NodeKind::Absent => Node {
                target: change(node.target),
                ..*node
            },
            _ => *node,
        });
        self.with_nodes(nodes.collect(), Arc::clone(&self.0.aux), self.num_leaves())
    }

    /// Returns a copy in which other leaves are present. Calls `keep` for each leaf, present or absent, in order.
    /// `keep` receives whether the leaf is present in this treedef, and returns whether it is present in the copy.
    pub(crate) fn with_presence(&self, keep: impl FnMut(bool) -> bool) -> Self {
        self.with_present(self.presence().iter().copied().map(keep).collect())
    }

    /// Returns the treedefs of `N` parts. For each leaf, `assigned` contains the index of its part. In all other parts
    /// the leaf is absent.
    pub(crate) fn split<const N: usize>(&self, assigned: &[u32]) -> [Self; N] {
        std::array::from_fn(|part| {
            if !self.has_absent() {
                let is_here = |&owner: &u32| owner as usize == part;
                return self.with_present(assigned.iter().map(is_here).collect());
            }
            let mut assigned = assigned.iter();
            self.with_presence(|present| {
                present && *expect_next(&mut assigned, LEAVES) as usize == part
            })
        })
    }

    /// Returns a copy in which each absent leaf is present if it is present in `other`. Both treedefs must be the same
    /// but for the presence of leaves.
    pub(crate) fn with_leaves_of(&self, other: &Self) -> Self {
        let (own, other) = (self.presence(), other.presence());
        let pairs = own.iter().zip(&*other);
        self.with_present(pairs.map(|(own, other)| own | other).collect())
    }

    /// Returns whether two treedefs are equal if all absent leaves are treated as present.
    pub(crate) fn is_same_but_for_presence(&self, other: &Self) -> bool {
        let (a, b) = (&self.whole().0, &other.whole().0);
        if Arc::ptr_eq(a, b) {
            return true;
        }
        if a.nodes.len() != b.nodes.len() || a.aux != b.aux {
            return false;
        }
        if a.dynamic.is_empty() && b.dynamic.is_empty() {
            return a.nodes.iter().zip(b.nodes.iter()).all(|(a, b)| {
                a.arity == b.arity
                    && a.target == b.target
                    && (std::ptr::eq(a.shape, b.shape)
                        || (a.is_place() && b.is_place())
                        || a.shape == b.shape)
            });
        }
        self.with_presence(|_| true) == other.with_presence(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hash, Hasher};

    use super::*;
    use crate::node::shape;
    use crate::treedef::Builder;

    /// Returns the treedef of `([*, *], *)`.
    fn treedef() -> TreeDef {
        let mut builder = Builder::default();
        builder.enter(&shape::TUPLE, 2);
        builder.enter(&shape::LIST, 2);
        builder.leaf(&shape::LEAF);
        builder.leaf(&shape::LEAF);
        builder.exit();
        builder.leaf(&shape::LEAF);
        builder.exit();
        builder.finish()
    }

    fn hash(treedef: &TreeDef) -> u64 {
        let mut hasher = DefaultHasher::new();
        treedef.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn part_equals_copy_without_whole() {
        let whole = treedef();
        let part = whole.with_presence(|_| false);
        let copy = TreeDef::from_parts(part.0.nodes.to_vec(), Vec::new(), Vec::new());
        assert_eq!(part, copy);
        assert_eq!(hash(&part), hash(&copy));
        assert_eq!(part.to_string(), "PyTreeDef(([-, -], -))");
        assert!(part.is_same_but_for_presence(&whole) && copy.is_same_but_for_presence(&whole));
        assert_ne!(part, whole);
    }

    #[test]
    fn splitting_and_merging_computes_no_nodes() {
        let whole = treedef();
        let [first, second] = whole.split(&[0, 1, 0]);
        let [third, fourth] = first.split(&[1, 0]);
        let merged = third.with_leaves_of(&second).with_leaves_of(&fourth);
        assert!(Arc::ptr_eq(&merged.0, &whole.0));
        for part in [first, second, third, fourth] {
            assert!(part.0.nodes.computed.get().is_none());
        }
    }

    #[test]
    fn absent_leaf_of_whole_becomes_present() {
        let part = treedef().with_presence(|_| false);
        let whole = TreeDef::from_parts(part.0.nodes.to_vec(), Vec::new(), Vec::new());
        let present = whole.with_presence(|_| true);
        assert_eq!(present, treedef());
        assert_eq!(present.num_leaves(), 3);
    }
}
