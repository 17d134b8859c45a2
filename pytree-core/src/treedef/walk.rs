//! Walks over all leaves of a treedef, present or absent, in order, with their paths or kinds.

use pytree_base::bug::{LEAVES, expect_next};

use super::cursor::NodeView;
use super::keys::key_below;
use super::node::Node;
use super::structure::{Inner, TreeDef};
use crate::base::kind::{FieldKind, LeafKind};
use crate::base::path::{KeyPath, PathKey};
use crate::node::leaf::Leaf;
use crate::node::shape::{NodeKind, Shape};
use crate::node::statics::StaticRef;

/// A step of a visitor's walk through a dynamic tree.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Enter(Shape<'a>, usize),
    Aux(StaticRef<'a>),
    Leaf(&'a dyn Leaf),
    /// An absent leaf, with the number of splits of the values that already lacked the leaf.
    Absent(u32),
    /// An alias, with the index of its target among the shared nodes and references of this tree.
    Alias(Option<usize>),
    Exit,
}

impl TreeDef {
    /// Returns the path of the node at position `target`.
    pub(crate) fn path_of(&self, target: usize) -> KeyPath {
        let mut path = KeyPath::root();
        for (node, position) in self.nodes_around(target) {
            path.extend_by(node.key(position));
        }
        path
    }

    /// Returns the nodes that contain the node at position `target`, from the root down. With each node, returns which
    /// of its children leads to `target`: the position of this child among the children.
    pub(crate) fn nodes_around(
        &self,
        target: usize,
    ) -> impl Iterator<Item = (NodeView<'_>, usize)> {
        let mut next = Some(self.root());
        std::iter::from_fn(move || {
            let node = next.filter(|node| node.position() < target)?;
            let mut children = node.children().enumerate();
            let (position, child) = children.find(|(_, child)| target < child.end())?;
            next = Some(child);
            Some((node, position))
        })
    }

    /// Calls `show` for each step of the walk through the tree. Takes the leaves from `leaves`, in order.
    pub(crate) fn show_nodes<'a>(
        &'a self,
        leaves: &mut dyn Iterator<Item = &'a dyn Leaf>,
        mut show: impl FnMut(Step<'a>),
    ) {
        let mut open: Vec<u32> = Vec::new();
        for (at, node) in self.0.nodes.iter().enumerate() {
            if let Some(remaining) = open.last_mut() {
                *remaining -= 1;
            }
            match node.shape.kind {
                NodeKind::Leaf => show(Step::Leaf(expect_next(leaves, LEAVES))),
                NodeKind::Absent => show(Step::Absent(node.target)),
                NodeKind::Alias => show(Step::Alias(node.target())),
                _ => {
                    show(Step::Enter(self.0.shape_of(node), node.arity as usize));
                    for value in self.0.aux_of(at) {
                        show(Step::Aux(value.as_static_ref()));
                    }
                    open.push(node.arity);
                }
            }
            while open.last() == Some(&0) {
                open.pop();
                show(Step::Exit);
            }
        }
    }

    /// Calls `visit` for each leaf, present or absent, in order.
    pub(crate) fn walk_places(&self, mut visit: impl FnMut(TreeLeaf<'_>)) {
        let mut path = KeyPath::root();
        let mut open: Vec<OpenNode<'_>> = Vec::new();
        for (at, node) in self.0.nodes.iter().enumerate() {
            let mut kind = None;
            let mut pushed = false;
            if let Some(parent) = open.last_mut() {
                kind = parent.child_kind(&self.0);
                if let Some(key) = self.0.child_key(parent.node, parent.next) {
                    path.push(key);
                    pushed = true;
                }
                parent.next += 1;
            }
            if node.is_place() {
                visit(TreeLeaf {
                    path: &path,
                    field: kind,
                    holds_leaf: node.shape.kind == NodeKind::Leaf,
                });
            }
            if node.arity > 0 {
                open.push(OpenNode {
                    node: at,
                    next: 0,
                    arity: node.arity as usize,
                    inherited: kind,
                    pushed,
                });
                continue;
            }
            if pushed {
                path.pop();
            }
            while open.last().is_some_and(|node| node.next == node.arity) {
                if open.pop().is_some_and(|node| node.pushed) {
                    path.pop();
                }
            }
        }
    }

    /// Returns the first node with the given path that `accept` accepts. Several nodes may have the same path: a
    /// transparent node has the path of its content, and two keys of a map may have the same text.
    pub(crate) fn find(
        &self,
        path: &KeyPath,
        mut accept: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let keys = path.keys();
        if keys.is_empty() && accept(0) {
            return Some(0);
        }
        // For each node on the path to the current node: its position, the index and the position of its next child,
        // and the number of keys of its path.
        let mut open = vec![(0, 0, 1, 0)];
        while let Some((node, next, child, known)) = open.last_mut() {
            if *next == self.0.nodes[*node].arity as usize {
                open.pop();
                continue;
            }
            let (at, mut known) = (*child, *known);
            let key = self.0.child_key(*node, *next);
            *next += 1;
            *child += self.0.nodes[at].size as usize;
            if key.is_some() {
                if key.as_ref() != keys.get(known) {
                    continue;
                }
                known += 1;
            }
            if known == keys.len() && accept(at) {
                return Some(at);
            }
            open.push((at, 0, at + 1, known));
        }
        None
    }

    /// Returns the first of `paths` that has no leaf, present or absent, at or below it. Never returns the root path.
    pub(crate) fn first_without_place<'p>(&self, paths: &[&'p KeyPath]) -> Option<&'p KeyPath> {
        /// Up to this number of paths, each path is searched separately from the root. For more paths, a single walk
        /// visits all leaves.
        const FEW: usize = 8;
        if paths.len() <= FEW {
            let leads_to_place = |path: &KeyPath| {
                path.keys().is_empty() || self.find(path, |node| self.has_place(node)).is_some()
            };
            return paths.iter().copied().find(|path| !leads_to_place(path));
        }
        let mut places = Vec::new();
        self.walk_places(|place| places.push(place.path.clone()));
        places.sort_unstable();
        let leads_to_place = |path: &KeyPath| {
            let next = places.get(places.partition_point(|place| place < path));
            path.keys().is_empty() || next.is_some_and(|place| path.is_prefix_of(place))
        };
        paths.iter().copied().find(|path| !leads_to_place(path))
    }

    /// Returns whether there is a leaf, present or absent, at or below a node.
    pub(crate) fn has_place(&self, node: usize) -> bool {
        let end = node + self.0.nodes[node].size as usize;
        self.0.nodes[node..end].iter().any(Node::is_place)
    }

    /// Finds the first leaf with the given path, present or absent. Returns the number of leaves before this leaf, the
    /// number of present leaves before it, and whether it is present.
    pub(crate) fn place_at(&self, path: &KeyPath) -> Option<(usize, usize, bool)> {
        let nodes = &self.0.nodes;
        let behind_alias = || {
            let node = self.content_of(self.follow(path).ok()?);
            node.is_place().then_some(node.position())
        };
        let at = self
            .find(path, |at| nodes[at].is_place())
            .or_else(behind_alias)?;
        let is_leaf = |at: usize| nodes[at].shape.kind == NodeKind::Leaf;
        let before = (0..at).filter(|&at| nodes[at].is_place());
        let (places, leaves) = before.fold((0, 0), |(places, leaves), at| {
            (places + 1, leaves + usize::from(is_leaf(at)))
        });
        Some((places, leaves, is_leaf(at)))
    }
}

impl Inner {
    /// Returns the key of the child at `position` among the children of `node`, or `None` if `node` is displayed as its
    /// child.
    fn child_key(&self, node: usize, position: usize) -> Option<PathKey> {
        key_below(self.shape(node), self.aux_of(node), position)
    }
}

/// A leaf of a tree, present or absent. A leaf is absent if another part of a partitioned tree holds it.
#[derive(Debug)]
pub(crate) struct TreeLeaf<'a> {
    pub(crate) path: &'a KeyPath,
    /// The kind of the outermost `Param` or `State` field around the leaf. `None` if there is no such field.
    field: Option<&'a FieldKind>,
    pub(crate) holds_leaf: bool,
}

impl TreeLeaf<'_> {
    /// Returns the kind of the leaf.
    pub(crate) fn kind(&self) -> Option<LeafKind> {
        self.field.and_then(LeafKind::below_field)
    }
}

/// A node in progress: the walk has not visited all of its children yet.
struct OpenNode<'a> {
    node: usize,
    next: usize,
    arity: usize,
    inherited: Option<&'a FieldKind>,
    pushed: bool,
}

impl<'a> OpenNode<'a> {
    /// Returns the kind of the outermost `Param` or `State` field around the next child, or `None` if there is no such
    /// field.
    fn child_kind(&self, inner: &'a Inner) -> Option<&'a FieldKind> {
        self.inherited.or_else(|| {
            let kind = inner.shape(self.node).field_kind(self.next);
            kind.filter(|kind| kind.decides())
        })
    }
}
