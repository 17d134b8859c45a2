//! Where the references of a structure are, and at which places else shared nodes and references stand.

use crate::base::path::KeyPath;
use crate::node::shape::NodeKind;
use crate::node::statics::StaticBox;
use crate::treedef::{Builder, TreeDef};

/// Where a reference is in a structure of the graph form.
#[derive(Clone, Debug)]
pub struct ReferencePlace {
    /// The positions of the leaves of its value.
    pub leaves: std::ops::Range<usize>,
    /// The structure of its value.
    pub value: TreeDef,
    /// Where it is met first.
    pub path: KeyPath,
}

impl ReferencePlace {
    /// For each leaf of a value that was written here, the position of the leaf of the argument that stood there; none
    /// if the value has another structure. References inside that are those of the argument have no leaves in it.
    pub fn leaves_of(&self, written: &TreeDef) -> Option<Vec<usize>> {
        let (was, now) = (&self.value.0, &written.0);
        if was.aux != now.aux
            && !now
                .nodes
                .iter()
                .any(|node| node.shape.kind == NodeKind::Argument)
        {
            return None;
        }
        let (mut at, mut leaf) = (0, self.leaves.start);
        let mut positions = Vec::with_capacity(written.num_leaves());
        for node in &now.nodes {
            let before = was.nodes.get(at)?;
            if node.shape.kind == NodeKind::Argument {
                let inside = &was.nodes[at..at + before.size as usize];
                let inside = inside
                    .iter()
                    .filter(|node| node.shape.kind == NodeKind::Leaf);
                leaf += inside.count();
                at += before.size as usize;
                continue;
            }
            if before.arity != node.arity || before.shape != node.shape {
                return None;
            }
            if node.shape.kind == NodeKind::Leaf {
                positions.push(leaf);
                leaf += 1;
            }
            at += 1;
        }
        (at == was.nodes.len()).then_some(positions)
    }
}

impl TreeDef {
    /// The references, in the order in which they are met.
    pub fn references(&self) -> Vec<ReferencePlace> {
        let nodes = self.0.nodes.iter().enumerate();
        let references = nodes.filter(|(_, node)| node.shape.kind == NodeKind::Reference);
        let references: Vec<usize> = references.map(|(at, _)| at).collect();
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

    /// The static values in what each reference holds.
    pub(super) fn reference_statics(&self) -> impl Iterator<Item = &[StaticBox]> {
        let nodes = &self.0.nodes;
        let references = nodes.iter().enumerate();
        let references = references.filter(|(_, node)| node.shape.kind == NodeKind::Reference);
        references.map(|(at, node)| {
            let end = nodes.get(at + node.size as usize);
            let end = end.map_or(self.0.aux.len(), |next| next.aux as usize);
            &self.0.aux[node.aux as usize..end]
        })
    }

    /// The positions of the leaves that each reference holds.
    pub(crate) fn reference_leaves(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let nodes = &self.0.nodes;
        let mut before = Vec::with_capacity(nodes.len() + 1);
        let mut count = 0;
        for node in nodes {
            before.push(count);
            count += usize::from(node.shape.kind == NodeKind::Leaf);
        }
        before.push(count);
        let references = nodes.iter().enumerate();
        let references = references.filter(|(_, node)| node.shape.kind == NodeKind::Reference);
        references.map(move |(at, node)| before[at]..before[at + node.size as usize])
    }

    /// The structure with the shared nodes and references at their later places, too, and for each leaf which of this
    /// structure's it is. Nothing if there are no such places. Where one is inside of another, it stays an alias.
    pub fn with_all_places(&self) -> Option<(Self, Vec<usize>)> {
        let nodes = &self.0.nodes;
        let numbered: Vec<usize> = (0..nodes.len())
            .filter(|&at| nodes[at].shape.kind.is_numbered())
            .collect();
        let target = |at: usize| {
            let target = *numbered.get(nodes[at].target()?)?;
            let is_around = target + nodes[target].size as usize > at;
            (!is_around).then_some(target)
        };
        (0..nodes.len()).find_map(target)?;
        // The leaves before each node.
        let mut before = Vec::with_capacity(nodes.len());
        let mut count = 0;
        for node in nodes {
            before.push(count);
            count += usize::from(node.shape.kind == NodeKind::Leaf);
        }
        let mut builder = Builder::default();
        let mut leaves = Vec::new();
        let mut ends: Vec<usize> = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            while ends.last().is_some_and(|&end| end <= at) {
                ends.pop();
                builder.exit();
            }
            if let Some(target) = target(at) {
                let shown = self.subtree(target);
                builder.subtree(&shown);
                leaves.extend((0..shown.num_leaves()).map(|leaf| before[target] + leaf));
            } else if node.shape.kind == NodeKind::Leaf {
                leaves.push(before[at]);
                builder.leaf(node.shape);
            } else {
                builder.node_of(self, at);
                ends.push(at + node.size as usize);
            }
        }
        ends.iter().for_each(|_| builder.exit());
        Some((builder.finish(), leaves))
    }
}
