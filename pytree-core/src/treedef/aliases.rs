//! The places of shared nodes and references: the first of each, at which it is, and the later ones, which lead to it.

use super::TreeDef;
use crate::base::path::KeyPath;
use crate::node::shape::NodeKind;

impl TreeDef {
    /// The number of the shared node or reference that the node at a position leads to, if it is an alias of one.
    pub(crate) fn alias_of(&self, node: usize) -> Option<usize> {
        self.node(node)?.target()
    }

    /// As [`alias_of`](Self::alias_of), of what is a place of the node: a weak edge is none.
    pub(crate) fn later_place_of(&self, node: usize) -> Option<usize> {
        let above = node.checked_sub(1).and_then(|above| self.node(above));
        let is_weak = above.is_some_and(|above| above.kind() == NodeKind::Weak);
        self.alias_of(node).filter(|_| !is_weak)
    }

    /// The positions of the shared nodes and references, in the order of their numbers.
    pub(crate) fn numbered_nodes(&self) -> &[usize] {
        self.0.numbered_nodes()
    }
}

/// The paths of shared nodes.
#[derive(Debug)]
pub(crate) struct Aliases {
    firsts: Vec<KeyPath>,
    /// The later places, with the number of the shared node.
    all: Vec<(usize, KeyPath)>,
}

impl Aliases {
    pub(crate) fn of(treedef: &TreeDef) -> Self {
        let aliases: Vec<(usize, usize)> = (0..treedef.num_nodes())
            .filter_map(|node| Some((treedef.alias_of(node)?, node)))
            .collect();
        let nodes: Vec<usize> = aliases.iter().map(|(_, node)| *node).collect();
        let numbers = aliases.iter().map(|(number, _)| *number);
        Self {
            firsts: treedef.node_paths(treedef.numbered_nodes()),
            all: numbers.zip(treedef.node_paths(&nodes)).collect(),
        }
    }

    /// The path of the first place of each shared node, by its number.
    pub(crate) fn firsts(&self) -> &[KeyPath] {
        &self.firsts
    }

    /// The later places with the numbers of their nodes, in order.
    pub(crate) fn all(&self) -> &[(usize, KeyPath)] {
        &self.all
    }

    /// Of a path that leads to or below a later place, the path to or below the first one.
    pub(crate) fn first_of(&self, path: &KeyPath) -> Option<KeyPath> {
        let mut path = path.clone();
        let mut found = false;
        // A first place may be reached through an alias again; a path has no more of them than keys.
        for _ in 0..=path.keys().len() {
            let alias = self.all.iter().find(|(_, alias)| alias.is_prefix_of(&path));
            let Some((number, alias)) = alias else {
                break;
            };
            let below = path.keys().iter().skip(alias.keys().len()).cloned();
            path = self
                .firsts
                .get(*number)?
                .keys()
                .iter()
                .cloned()
                .chain(below)
                .collect();
            found = true;
        }
        found.then_some(path)
    }
}
