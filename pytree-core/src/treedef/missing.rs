//! Errors for paths that lead to no node, and for wrong numbers of leaves.

use pytree_base::suggest::Effort;

use super::structure::TreeDef;
use crate::base::error::TreeError;
use crate::base::path::{KeyPath, PathKey};
use crate::node::shape::NodeKind;

/// The greatest number of path keys that are collected as candidates for suggestions. There is a limit because the paths
/// of a deep tree with many leaves have too many keys in total.
const LOOKED_AT: usize = 1_000_000;

impl TreeDef {
    /// Returns whether a path leads to a static field.
    pub(crate) fn is_static(&self, path: &KeyPath) -> bool {
        let Some(PathKey::Field(name)) = path.keys().last() else {
            return false;
        };
        let mut above = path.clone();
        above.pop();
        let Ok(node) = self.follow(&above) else {
            return false;
        };
        let shape = self.content_of(node).shape();
        shape.static_names().any(|found| *found == **name)
    }

    /// Returns whether a path leads to a node or a static field.
    pub(crate) fn has_path(&self, path: &KeyPath) -> bool {
        self.is_static(path) || self.find(path, |_| true).is_some()
    }

    /// Returns the error for a path without a node. If a static field has this path, the error says so. Otherwise, the
    /// error suggests the most similar path.
    pub(crate) fn no_node(&self, path: &KeyPath) -> TreeError {
        let path = path.clone();
        if self.is_static(&path) {
            return TreeError::StaticField { path };
        }
        if let Some(nearest) = self.nearest_behind_alias(&path) {
            let nearest = Some(nearest);
            return TreeError::NoNode { path, nearest };
        }
        // Limits the number of paths, because a deep tree with many nodes has too many path keys to compare all of
        // them.
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
    /// Returns the error for a path without a leaf. If a node has this path, the error lists the leaves below the node.
    /// Otherwise, the error suggests the most similar path of a leaf.
    pub(crate) fn no_leaf(&self, path: &KeyPath) -> TreeError {
        let leaves = self.leaves_below(path);
        let path = path.clone();
        if !leaves.is_empty() {
            return TreeError::NotALeaf { path, leaves };
        }
        let nearest = self
            .nearest_behind_alias(&path)
            .or_else(|| self.nearest_leaf(&path));
        TreeError::NoLeaf { path, nearest }
    }

    /// Returns the paths of the leaves below a node. The list is empty if no node has this path.
    fn leaves_below(&self, path: &KeyPath) -> Vec<KeyPath> {
        let Ok(node) = self.follow(path) else {
            return Vec::new();
        };
        // The path may lead through aliases. A walk finds the leaves below the first path of the node.
        let first = self.path_of(self.content_of(node).position());
        let mut leaves = Vec::new();
        self.walk_places(|place| {
            if place.holds_leaf && first.is_prefix_of(place.path) {
                let below = &place.path.keys()[first.keys().len()..];
                leaves.push(path.keys().iter().chain(below).cloned().collect());
            }
        });
        leaves
    }

    /// Returns the path of a leaf that is most similar to a path.
    fn nearest_leaf(&self, path: &KeyPath) -> Option<KeyPath> {
        let mut paths = Vec::new();
        let mut keys = 0;
        self.walk_places(|place| {
            keys += place.path.keys().len();
            if place.holds_leaf && keys < LOOKED_AT {
                paths.push(place.path.clone());
            }
        });
        let texts = paths.iter().map(|path| (path, path.to_string()));
        let (nearest, _) = Effort::default().nearest(&path.to_string(), texts)?;
        Some(nearest.clone())
    }

    /// Returns an existing path that is similar to `path` and leads through an alias. `path` itself leads to no node. A
    /// walk over all nodes finds all other similar paths. So the result is `None` unless the last existing node on
    /// `path` was reached through an alias, or has an alias as a child.
    pub(crate) fn nearest_behind_alias(&self, path: &KeyPath) -> Option<KeyPath> {
        let (reached, passed) = self.follow(path).err()?;
        let mut nearest: KeyPath = path.keys().iter().take(passed).cloned().collect();
        let node = self.view(reached);
        // A walk over all nodes finds the children of a node below its first path, unless the children are aliases.
        let is_first = self.path_of(reached) == nearest;
        if is_first && !node.children().any(|child| child.target().is_some()) {
            return None;
        }
        let wanted = path.keys().get(passed)?.to_string();
        let keys = node.keys().flatten();
        let keys = keys.chain(node.keyed_statics().map(|(key, _)| key));
        let texts = keys.take(LOOKED_AT).map(|key| {
            let text = key.to_string();
            (key, text)
        });
        let (key, _) = Effort::default().nearest(&wanted, texts)?;
        nearest.push(key);
        Some(nearest)
    }

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
