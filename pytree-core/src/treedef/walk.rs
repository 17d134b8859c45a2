//! Walking the places of a treedef in order, with their paths or kinds.

use super::keys::child_key;
use super::{Inner, Node, TreeDef};
use crate::base::bug::{LEAVES, expect_next};
use crate::base::kind::LeafKind;
use crate::base::path::KeyPath;
use crate::node::leaf::Leaf;
use crate::node::shape::{Field, NodeKind, NodeShape};
use crate::node::statics::StaticRef;

/// What a visitor is shown of a dynamic tree.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Enter(&'static NodeShape, usize),
    Aux(StaticRef<'a>),
    Leaf(&'a dyn Leaf),
    Absent,
    /// An alias, with the number of the node it leads to in this tree.
    Alias(Option<usize>),
    Exit,
}

impl TreeDef {
    /// Shows the tree step by step, its leaves in turn.
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
                NodeKind::Absent => show(Step::Absent),
                NodeKind::Alias => show(Step::Alias(node.target())),
                _ => {
                    show(Step::Enter(node.shape, node.arity as usize));
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

    /// Calls `visit` for each place, present or absent, in order.
    pub(crate) fn walk_places(&self, mut visit: impl FnMut(Place<'_>)) {
        let mut path = KeyPath::root();
        let mut open: Vec<OpenNode> = Vec::new();
        for (at, node) in self.0.nodes.iter().enumerate() {
            let mut kind = None;
            let mut pushed = false;
            if let Some(parent) = open.last_mut() {
                kind = parent.child_kind(&self.0);
                if let Some(key) = child_key(&self.0, parent.node, parent.next) {
                    path.push(key);
                    pushed = true;
                }
                parent.next += 1;
            }
            if node.is_place() {
                visit(Place {
                    path: &path,
                    kind,
                    holds_leaf: node.shape.kind == NodeKind::Leaf,
                });
            }
            open.push(OpenNode {
                node: at,
                next: 0,
                arity: node.arity as usize,
                inherited: kind,
                pushed,
            });
            while open.last().is_some_and(|node| node.next == node.arity) {
                if open.pop().is_some_and(|node| node.pushed) {
                    path.pop();
                }
            }
        }
    }

    /// The first node at a path that `accept` accepts. A transparent node has the path of what is in it; two keys of a
    /// map may look the same.
    pub(crate) fn find(
        &self,
        path: &KeyPath,
        mut accept: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let keys = path.keys();
        if keys.is_empty() && accept(0) {
            return Some(0);
        }
        // Of each open node: its next child, where that is, and how many keys lead to the node.
        let mut open = vec![(0, 0, 1, 0)];
        while let Some((node, next, child, known)) = open.last_mut() {
            if *next == self.0.nodes[*node].arity as usize {
                open.pop();
                continue;
            }
            let (at, mut known) = (*child, *known);
            let key = child_key(&self.0, *node, *next);
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

    /// The first of some paths at and below which no place is, present or absent. The root needs none.
    pub(crate) fn first_without_place<'p>(&self, paths: &[&'p KeyPath]) -> Option<&'p KeyPath> {
        /// Each path is searched among the children of the nodes above it: of more paths, all places are walked once.
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

    /// Whether there is a place, present or absent, at or below a node.
    pub(crate) fn has_place(&self, node: usize) -> bool {
        let end = node + self.0.nodes[node].size as usize;
        self.0.nodes[node..end].iter().any(Node::is_place)
    }

    /// The first place at a path, present or absent: how many places and how many leaves are before it, and whether it
    /// holds a leaf.
    pub(crate) fn place_at(&self, path: &KeyPath) -> Option<(usize, usize, bool)> {
        let nodes = &self.0.nodes;
        let at = self.find(path, |at| nodes[at].is_place())?;
        let is_leaf = |at: usize| nodes[at].shape.kind == NodeKind::Leaf;
        let before = (0..at).filter(|&at| nodes[at].is_place());
        let (places, leaves) = before.fold((0, 0), |(places, leaves), at| {
            (places + 1, leaves + usize::from(is_leaf(at)))
        });
        Some((places, leaves, is_leaf(at)))
    }

    /// Calls `visit` with presence and decision of each place, in order. `decide` is asked once for each
    /// field that settles a kind, and once for places outside of such fields.
    pub(crate) fn walk_decisions<T: Copy>(
        &self,
        mut decide: impl FnMut(Option<LeafKind>) -> T,
        mut visit: impl FnMut(bool, T),
    ) {
        let without_kind = decide(None);
        // Of each open node: the fields whose kinds are yet to be asked for, how many children are left, and
        // what a field above decided.
        let mut open: Vec<(&'static [Field], u32, Option<T>)> = Vec::new();
        for node in &self.0.nodes {
            let mut decision = None;
            if let Some((fields, left, inherited)) = open.last_mut() {
                *left -= 1;
                decision = *inherited;
                if let Some((field, rest)) = fields.split_first() {
                    *fields = rest;
                    if decision.is_none() {
                        decision = field
                            .kind
                            .and_then(LeafKind::of_field)
                            .map(|kind| decide(Some(kind)));
                    }
                }
            }
            if node.arity > 0 {
                open.push((node.shape.fields, node.arity, decision));
                continue;
            }
            if node.is_place() {
                visit(
                    node.shape.kind == NodeKind::Leaf,
                    decision.unwrap_or(without_kind),
                );
            }
            while open.last().is_some_and(|(_, left, _)| *left == 0) {
                open.pop();
            }
        }
    }
}

/// A place of a tree: where a leaf is, or was before a partition.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) path: &'a KeyPath,
    pub(crate) kind: Option<LeafKind>,
    pub(crate) holds_leaf: bool,
}

/// A node of a walk whose children are not all visited.
struct OpenNode {
    node: usize,
    next: usize,
    arity: usize,
    inherited: Option<LeafKind>,
    pushed: bool,
}

impl OpenNode {
    /// The kind that the next child inherits: that of the outermost field that decides one.
    fn child_kind(&self, inner: &Inner) -> Option<LeafKind> {
        self.inherited.or_else(|| {
            inner.nodes[self.node]
                .shape
                .fields
                .get(self.next)
                .and_then(|field| field.kind)
                .and_then(LeafKind::of_field)
        })
    }
}
