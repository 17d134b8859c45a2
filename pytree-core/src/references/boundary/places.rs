//! Finds the references of a structure, and the later occurrences of shared nodes and references.

use crate::base::path::KeyPath;
use crate::node::shape::NodeKind;
use crate::treedef::{Builder, NodeView, TreeDef};

/// A reference in a graph structure: its path, and the leaves and the structure of its value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReferencePlace {
    /// The positions of the leaves of the reference's value.
    pub leaves: std::ops::Range<usize>,
    /// The structure of the reference's value.
    pub value: TreeDef,
    /// The path of the first occurrence of the reference.
    pub path: KeyPath,
}

impl ReferencePlace {
    /// Finds the old leaves of a value that a function wrote to this reference. Returns, for each leaf of the written
    /// value, the position of the leaf at the same path in the function's argument. Returns `None` if `written`, the
    /// structure of the written value, differs from the structure of the old value. If the written value contains
    /// references of the argument, the leaves behind these references are left out.
    pub fn leaves_of(&self, written: &TreeDef) -> Option<Vec<usize>> {
        let is_known = |node: NodeView<'_>| node.kind() == NodeKind::Argument;
        if !self.value.has_statics_of(written) && !written.nodes().any(is_known) {
            return None;
        }
        let (mut at, mut leaf) = (0, self.leaves.start);
        let mut positions = Vec::with_capacity(written.num_leaves());
        for node in written.nodes() {
            let before = self.value.node(at)?;
            if is_known(node) {
                leaf += before.num_leaves();
                at = before.end();
                continue;
            }
            if before.num_children() != node.num_children() || before.shape() != node.shape() {
                return None;
            }
            if node.kind() == NodeKind::Leaf {
                positions.push(leaf);
                leaf += 1;
            }
            at += 1;
        }
        (at == self.value.num_nodes()).then_some(positions)
    }
}

impl TreeDef {
    /// Returns the references, in the order in which they are visited.
    pub fn references(&self) -> Vec<ReferencePlace> {
        let references: Vec<usize> = self.reference_nodes().map(|node| node.position()).collect();
        let paths = self.node_paths(&references);
        let places = references.into_iter().zip(self.reference_leaves());
        places
            .zip(paths)
            .map(|((at, leaves), path)| ReferencePlace {
                leaves,
                value: self.subtree(at + 1),
                path,
            })
            .collect()
    }

    fn reference_nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.nodes()
            .filter(|node| node.kind() == NodeKind::Reference)
    }

    /// Returns, for each reference, the range of the positions of the leaves in its value.
    pub(crate) fn reference_leaves(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let before = self.leaves_before();
        self.reference_nodes()
            .map(move |node| before[node.position()]..before[node.end()])
    }

    /// Returns a copy of this structure in which each alias is replaced by a copy of its target. Also returns, for each
    /// leaf of the copy, the position of the same leaf in this structure. An alias inside its own target stays an
    /// alias. Returns `None` if there is no alias to replace.
    pub fn with_all_places(&self) -> Option<(Self, Vec<usize>)> {
        let numbered = self.numbered_nodes();
        let target = |node: NodeView<'_>| {
            let target = self.view(*numbered.get(node.target()?)?);
            let is_around = target.end() > node.position();
            (!is_around).then_some(target)
        };
        self.nodes().find_map(target)?;
        let before = self.leaves_before();
        let mut builder = Builder::default();
        let mut leaves = Vec::new();
        let mut ends: Vec<usize> = Vec::new();
        for node in self.nodes() {
            let at = node.position();
            while ends.last().is_some_and(|&end| end <= at) {
                ends.pop();
                builder.exit();
            }
            if let Some(target) = target(node) {
                builder.subtree(&target.to_treedef());
                leaves.extend(before[target.position()]..before[target.end()]);
            } else if node.kind() == NodeKind::Leaf {
                leaves.push(before[at]);
                builder.leaf_of(node);
            } else {
                builder.node_of(self, at);
                ends.push(node.end());
            }
        }
        ends.iter().for_each(|_| builder.exit());
        Some((builder.finish(), leaves))
    }
}
