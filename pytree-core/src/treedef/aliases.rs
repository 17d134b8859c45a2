//! The aliases of shared nodes and references, and paths through aliases. In a treedef, the first occurrence of a
//! shared node or reference is the node itself, and each later occurrence is an alias.

use super::cursor::NodeView;
use super::structure::TreeDef;
use crate::base::path::{KeyPath, PathKey};
use crate::node::shape::NodeKind;

impl TreeDef {
    /// If `node` is an alias with a target, returns the index of the target among the shared nodes and references.
    pub(crate) fn alias_of(&self, node: usize) -> Option<usize> {
        self.node(node)?.target()
    }

    /// Returns the same as [`alias_of`](Self::alias_of). The exception is the alias in a weak edge: the result is
    /// `None`, because a weak edge is not an occurrence of its target.
    pub(crate) fn later_place_of(&self, node: usize) -> Option<usize> {
        let above = node.checked_sub(1).and_then(|above| self.node(above));
        let is_weak = above.is_some_and(|above| above.kind() == NodeKind::Weak);
        self.alias_of(node).filter(|_| !is_weak)
    }

    /// Returns whether there is an alias of a shared node or reference.
    pub(crate) fn has_aliases(&self) -> bool {
        self.num_numbered() > 0 && self.nodes().any(|node| node.target().is_some())
    }

    /// Returns whether a graph with this structure can be visited as a tree: no node contains itself, and no weak edge
    /// has a target.
    pub(crate) fn has_tree_form(&self) -> bool {
        (0..self.num_nodes()).all(|node| {
            if self.alias_of(node).is_none() {
                return true;
            }
            // In preorder, each cycle contains an alias that is inside its own target.
            let number = self.later_place_of(node);
            let target = number.and_then(|number| self.numbered_nodes().get(number));
            target.is_some_and(|&target| self.view(target).end() <= node)
        })
    }

    /// If `node` is an alias with a target, returns the position of the target, and otherwise `node` itself.
    pub(crate) fn first_place_of(&self, node: usize) -> usize {
        let number = self.alias_of(node);
        let first = number.and_then(|number| self.numbered_nodes().get(number));
        first.copied().unwrap_or(node)
    }

    /// Returns the targets of all aliases in the subtrees at `nodes`. Also follows the aliases inside of each target,
    /// the aliases inside of their targets, and so on. Ignores the aliases of weak edges.
    fn behind_aliases(&self, nodes: Vec<usize>) -> Vec<usize> {
        let mut passed = vec![false; self.num_nodes()];
        let mut found = Vec::new();
        let mut rest = nodes;
        while let Some(node) = rest.pop() {
            let (mut at, end) = (node, self.view(node).end());
            while at < end {
                if std::mem::replace(&mut passed[at], true) {
                    // Skips the subtree, because it was walked before.
                    at = self.view(at).end();
                    continue;
                }
                let number = self.later_place_of(at);
                if let Some(&target) = number.and_then(|number| self.numbered_nodes().get(number)) {
                    found.push(target);
                    rest.push(target);
                }
                at += 1;
            }
        }
        found
    }

    /// Returns the first paths of the nodes at the given paths, which may lead through aliases. Also returns the first
    /// paths of the targets of all aliases below these nodes. The first path of a node does not lead through an alias.
    pub(crate) fn first_places<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p KeyPath>,
    ) -> Vec<KeyPath> {
        let mut firsts = Vec::new();
        let mut nodes = Vec::new();
        for path in paths {
            if let Ok(node) = self.follow(path) {
                nodes.push(node);
            } else if let Some((PathKey::Field(name), above)) = path.keys().split_last()
                && let above = above.iter().cloned().collect()
                && let Ok(node) = self.follow(&above)
            {
                // The path may be the path of a static field, which is not a node.
                let mut first = self.path_of(self.content_of(node).position());
                first.push(PathKey::Field(name.clone()));
                firsts.push(first);
            }
        }
        let behind = self.behind_aliases(nodes.clone());
        firsts.extend(self.node_paths(&nodes));
        firsts.extend(self.node_paths(&behind));
        firsts
    }

    /// Returns whether a leaf, present or absent, is at or below a path, and can be reached only through an alias. The
    /// alias may be on the path or below the path.
    pub(crate) fn leads_behind_alias(&self, path: &KeyPath) -> bool {
        let has_place = |node: &usize| self.has_place(*node);
        self.follow(path).is_ok_and(|node| {
            let content = self.content_of(node).position();
            let is_found = !self.has_place(node) || self.path_of(content) != *path;
            is_found
                && (has_place(&content) || self.behind_aliases(vec![content]).iter().any(has_place))
        })
    }

    /// Selects each node whose key `is_meant` accepts. Returns the paths of the targets of all aliases at or below the
    /// selected nodes.
    pub(crate) fn first_places_below(&self, is_meant: impl Fn(&PathKey) -> bool) -> Vec<KeyPath> {
        let mut nodes = Vec::new();
        for node in self.nodes() {
            let keyed = node.keys().zip(node.children());
            let meant = keyed.filter(|(key, _)| key.as_ref().is_some_and(&is_meant));
            nodes.extend(meant.map(|(_, child)| child.position()));
        }
        self.node_paths(&self.behind_aliases(nodes))
    }

    /// Returns `node` and all nodes that have the same path, the outermost first. A transparent node has the path of
    /// its child. An alias is replaced by its target.
    pub(crate) fn nodes_at_place_of(&self, node: usize) -> Vec<usize> {
        let mut nodes = Vec::new();
        let mut next = Some(node);
        // The loop has a limit, because in a treedef that was read from bytes, a chain of transparent nodes may lead
        // back to itself.
        while let Some(node) = next.filter(|_| nodes.len() < self.num_nodes()) {
            let view = self.view(node);
            if let Some(number) = view.target() {
                next = self.numbered_nodes().get(number).copied();
                continue;
            }
            nodes.push(node);
            let is_passed = view.kind().is_transparent() && view.num_children() == 1;
            next = is_passed.then_some(node + 1);
        }
        nodes
    }

    /// Follows aliases and transparent nodes, such as `Some`, beginning at `node`. Returns the first other node.
    pub(crate) fn content_of(&self, node: usize) -> NodeView<'_> {
        let content = self.nodes_at_place_of(node).last().copied();
        self.view(content.unwrap_or(node))
    }

    /// Follows a path from the root. The path may lead through aliases. Returns the node at the path. If there is no
    /// such node, the error contains the last existing node on the path, and the number of keys that lead to this node.
    pub(crate) fn follow(&self, path: &KeyPath) -> Result<usize, (usize, usize)> {
        let mut node = 0;
        for (passed, key) in path.keys().iter().enumerate() {
            let content = self.content_of(node);
            match content.child_with_key(key) {
                Some(child) => node = child.position(),
                None => return Err((content.position(), passed)),
            }
        }
        Ok(node)
    }

    /// Returns the positions of the shared nodes and references, in preorder.
    pub(crate) fn numbered_nodes(&self) -> &[usize] {
        self.0.numbered_nodes()
    }

    /// Returns, for each shared node and reference, whether it has a new value after the nodes that `is_changed` accepts
    /// have changed. A value that contains a changed shared node, or a weak edge to it, is a new value. A value that
    /// contains a changed reference is not, because the reference keeps its identity.
    pub(crate) fn numbered_changes(
        &self,
        mut is_changed: impl FnMut(NodeView<'_>) -> bool,
    ) -> Vec<bool> {
        let numbered = self.numbered_nodes();
        if numbered.is_empty() {
            return Vec::new();
        }
        let is_shared = |number: usize| self.view(numbered[number]).kind() == NodeKind::Shared;
        let mut changed = vec![false; numbered.len()];
        // For each shared node, the numbered nodes whose values contain it.
        let mut holders: Vec<Vec<usize>> = vec![Vec::new(); numbered.len()];
        let mut queue = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut next = 0;
        for node in self.nodes() {
            let at = node.position();
            while open
                .last()
                .is_some_and(|&open| self.view(numbered[open]).end() <= at)
            {
                open.pop();
            }
            let is_changed = is_changed(node);
            if let Some(&holder) = open.last() {
                if is_changed && !std::mem::replace(&mut changed[holder], true) {
                    queue.push(holder);
                }
                if let Some(target) = node.target().filter(|&target| is_shared(target)) {
                    holders[target].push(holder);
                }
            }
            if numbered.get(next) == Some(&at) {
                holders[next].extend(open.last().filter(|_| is_shared(next)));
                open.push(next);
                next += 1;
            }
        }
        while let Some(number) = queue.pop() {
            for &holder in &holders[number] {
                if !std::mem::replace(&mut changed[holder], true) {
                    queue.push(holder);
                }
            }
        }
        changed
    }
}

/// The paths of the shared nodes and references of a treedef, at their first and later occurrences.
#[derive(Debug)]
pub(crate) struct Aliases {
    firsts: Vec<KeyPath>,
    /// The paths of later occurrences, each with the index of the shared node or reference.
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

    /// Returns the first path of each shared node or reference, in preorder.
    pub(crate) fn firsts(&self) -> &[KeyPath] {
        &self.firsts
    }

    /// Returns the paths of later occurrences in order, each with the index of the shared node or reference.
    pub(crate) fn all(&self) -> &[(usize, KeyPath)] {
        &self.all
    }

    /// Returns the path that leads to the same node as `path`, but only through first occurrences. Returns `None` if
    /// `path` does not lead to or below a later occurrence.
    pub(crate) fn first_of(&self, path: &KeyPath) -> Option<KeyPath> {
        let mut path = path.clone();
        let mut found = false;
        // The new path may lead through another alias. A path contains at most as many aliases as keys.
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
