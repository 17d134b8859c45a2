//! Errors for paths that lead to no node, and for wrong numbers of leaves.

use super::TreeDef;
use crate::base::error::TreeError;
use crate::base::path::{Key, KeyPath};
use crate::base::suggest::{Effort, LOOKED_AT};
use crate::node::shape::NodeKind;

impl TreeDef {
    /// Returns whether a path leads to a static field.
    pub(crate) fn is_static(&self, path: &KeyPath) -> bool {
        let Some((Key::Field(name), above)) = path.keys().split_last() else {
            return false;
        };
        let mut node = self.root().inside();
        for key in above {
            match node.child_with_key(key) {
                Some(child) => node = child.inside(),
                None => return false,
            }
        }
        node.shape().static_names().any(|found| *found == **name)
    }

    /// Returns whether a path leads to a node or a static field.
    pub(crate) fn has_path(&self, path: &KeyPath) -> bool {
        self.is_static(path) || self.find(path, |_| true).is_some()
    }

    /// Returns the error for a path that leads to no node. The error reports a static field at the path, or else
    /// suggests the most similar path.
    pub(crate) fn no_node(&self, path: &KeyPath) -> TreeError {
        let path = path.clone();
        if self.is_static(&path) {
            return TreeError::StaticField { path };
        }
        // Limits the number of paths, because a deep tree with many nodes has too many path keys to compare all.
        let nodes = self.num_nodes().min(LOOKED_AT / self.depth().max(1));
        let all: Vec<usize> = (0..nodes).collect();
        let text = path.to_string();
        let paths = self.node_paths(&all);
        let paths = paths.iter().filter(|path| !path.keys().is_empty());
        let nearest = Effort::default().nearest(&text, paths.map(|path| (path, path.to_string())));
        TreeError::NoNode {
            path,
            nearest: nearest.map(|(path, _)| path.clone()),
        }
    }
}

impl TreeDef {
    /// Checks that `found` is the number of leaves of the treedef.
    ///
    /// # Errors
    /// Returns [`TreeError::LeafCount`] with the path of the first missing leaf, if any is missing.
    pub(crate) fn check_count(&self, found: usize) -> Result<(), TreeError> {
        let expected = self.num_leaves();
        if found == expected {
            return Ok(());
        }
        let mut leaves = self.nodes().filter(|node| node.kind() == NodeKind::Leaf);
        let first_missing = leaves.nth(found).map(|node| node.path());
        Err(TreeError::LeafCount {
            doing: "cannot unflatten",
            expected,
            found,
            first_missing,
        })
    }
}
