//! The nodes of a treedef.

use std::sync::Arc;

use pytree_base::bug::bug;

use crate::node::shape::{NodeKind, NodeShape};

/// A node of a treedef.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The shape, a constant. If the real shape was created at run time, the constant is a stand-in, and the real shape
    /// is in [`Inner::dynamic`].
    pub(super) shape: &'static NodeShape,
    /// The number of children.
    pub(super) arity: u32,
    /// The number of nodes of the subtree, including this node.
    pub(super) size: u32,
    /// The position of the node's first static value in [`Inner::aux`].
    pub(super) aux: u32,
    /// For an alias, the index of its target among all shared nodes and references in preorder, or [`NOTHING`]. For a
    /// node that refers to a shared node or reference of a function's argument, the index of the target in the
    /// argument. For a node whose shape is a stand-in, the position of the real shape in [`Inner::dynamic`]. For an
    /// absent leaf, the number of splits of the values that already lacked the leaf: see [`TreeDef::as_whole`]. Zero
    /// for all other nodes.
    pub(super) target: u32,
}

/// Moves a list into an `Arc`. All empty lists share one, without an allocation.
pub(super) fn shared<T>(list: Vec<T>) -> Arc<[T]> {
    if list.is_empty() {
        return Arc::default();
    }
    list.into()
}

/// The value of [`Node::target`] for an alias without a target.
pub(super) const NOTHING: u32 = u32::MAX;

impl Node {
    /// Returns the number of an alias's target, or `None` if the alias has no target, or if the node is not an alias.
    #[inline]
    pub(super) fn target(&self) -> Option<usize> {
        (self.shape.kind == NodeKind::Alias && self.target != NOTHING)
            .then_some(self.target as usize)
    }

    /// Returns whether the node is a leaf, present or absent, of the value that was split. A leaf that this value lacked
    /// before is not.
    pub(super) fn is_place(&self) -> bool {
        match self.shape.kind {
            NodeKind::Leaf => true,
            NodeKind::Absent => self.target == 0,
            _ => false,
        }
    }
}

/// The invariant that a panic message names if the shape of a stand-in is missing.
pub(super) const SHAPES: &str =
    "an entry in the table of shapes for each node that refers to this table";

/// Converts a count to 32 bits. A tree with a greater count would need over 100 GB of memory.
#[inline]
pub(crate) fn count(value: usize) -> u32 {
    match u32::try_from(value) {
        Ok(count) => count,
        Err(_) => bug("fewer than 2^32 nodes, children and static values in a tree"),
    }
}

/// Converts the number of an alias's target to the value of [`Node::target`].
pub(super) fn target_of(number: Option<usize>) -> u32 {
    number.map_or(NOTHING, count)
}
