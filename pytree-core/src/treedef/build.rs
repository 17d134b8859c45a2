//! Building treedefs node by node.

use std::sync::Arc;

use super::cursor::NodeView;
use super::dynamic::DynamicShapes;
use super::keys::key_below;
use super::node::{Node, count, shared, target_of};
use super::structure::{Counts, TreeDef};
use crate::base::error::{TreeError, VisitProblem};
use crate::base::path::{KeyPath, PathKey};
use crate::base::text::short_name;
use crate::node::shape::{self, DynamicShape, NodeKind, NodeShape, Shape, StandIn};
use crate::node::statics::StaticBox;

/// Builds a treedef node by node, in preorder.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    nodes: Vec<Node>,
    aux: Vec<StaticBox>,
    dynamic: DynamicShapes,
    open: Vec<u32>,
    counts: Counts,
    /// The number of calls of [`exit`](Self::exit) while no node was open.
    ended_twice: usize,
}

impl Builder {
    pub(crate) fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        self.enter_with_target(shape, saturated(arity), 0);
    }

    /// Begins a node whose shape was created at run time. The caller adds the children and calls [`exit`](Self::exit).
    pub(crate) fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) {
        let target = self.dynamic.position(shape);
        self.enter_with_target(StandIn::of(shape.kind()), saturated(arity), target);
    }

    /// Begins a node of any shape. The caller adds the children and calls [`exit`](Self::exit).
    pub(crate) fn enter_shape(&mut self, shape: Shape<'_>, arity: usize) {
        match shape {
            Shape::Static(shape) => self.enter(shape, arity),
            Shape::Dynamic(shape) => self.enter_dynamic(shape, arity),
        }
    }

    /// Returns the kinds of the open nodes, from the root down. A node is open if it was entered and not yet exited.
    #[inline]
    pub(crate) fn open_kinds(&self) -> impl ExactSizeIterator<Item = NodeKind> {
        let kind = |&node: &u32| self.nodes[node as usize].shape.kind;
        self.open.iter().map(kind)
    }

    /// Returns the number of open nodes.
    #[inline]
    pub(crate) fn num_open(&self) -> usize {
        self.open.len()
    }

    /// Returns the index that aliases will use for the next shared node or reference.
    pub(crate) fn next_number(&self) -> usize {
        self.counts.numbered
    }

    /// Returns the position that the next node will have in the treedef.
    pub(crate) fn position(&self) -> usize {
        self.nodes.len()
    }

    /// Sets the target of the alias at position `alias`, which was already added, to node `number`.
    pub(crate) fn set_target(&mut self, alias: usize, number: Option<usize>) {
        self.nodes[alias].target = target_of(number);
    }

    #[inline]
    fn enter_with_target(&mut self, shape: &'static NodeShape, arity: u32, target: u32) {
        self.open.push(count(self.nodes.len()));
        self.counts.depth = self.counts.depth.max(self.open.len());
        self.counts.numbered += usize::from(shape.kind.is_numbered());
        self.counts.absent += usize::from(shape.kind == NodeKind::Absent);
        self.push(shape, arity, target);
    }

    pub(crate) fn aux(&mut self, value: StaticBox) {
        self.aux.push(value);
    }

    pub(crate) fn leaf(&mut self, shape: &'static NodeShape) {
        self.counts.leaves += 1;
        self.push(shape, 0, 0);
    }

    /// Adds a copy of a leaf of another treedef.
    pub(crate) fn leaf_of(&mut self, leaf: NodeView<'_>) {
        self.leaf(leaf.node.shape);
    }

    /// Adds an absent leaf. `splits` is the number of splits of the values that already lacked the leaf.
    pub(crate) fn absent(&mut self, splits: u32) {
        self.counts.absent += 1;
        self.push(&shape::ABSENT, 0, splits);
    }

    pub(crate) fn exit(&mut self) {
        if let Some(start) = self.open.pop() {
            let size = count(self.nodes.len()) - start;
            self.nodes[start as usize].size = size;
        } else {
            self.ended_twice += 1;
        }
    }

    /// Checks that each node has as many children as it announced, and has ended. A handwritten impl of `Pytree` may be
    /// wrong.
    ///
    /// # Errors
    /// [`TreeError::WrongVisit`] with the last node that is wrong: the visits of the nodes in it are right, except for
    /// a wrong number of calls of `exit`.
    pub(crate) fn check(&self) -> Result<(), TreeError> {
        let is_wrong = |&node: &usize| {
            let Node { arity, size, .. } = self.nodes[node];
            match size {
                1 => arity > 0,
                _ => self.children(node).count() != arity as usize,
            }
        };
        let wrong = (0..self.nodes.len()).rev().find(is_wrong);
        if wrong.is_none() && self.open.is_empty() && self.ended_twice == 0 {
            return Ok(());
        }
        Err(self.wrong_visit(wrong))
    }

    /// Returns the positions of the children of a node, as the calls of [`exit`](Self::exit) determine them.
    fn children(&self, node: usize) -> impl Iterator<Item = usize> {
        let end = node + self.nodes[node].size as usize;
        let next = move |&child: &usize| {
            let next = child + self.nodes[child].size as usize;
            (next < end).then_some(next)
        };
        std::iter::successors((node + 1 < end).then_some(node + 1), next)
    }

    #[cold]
    fn wrong_visit(&self, wrong: Option<usize>) -> TreeError {
        let mut node = wrong.unwrap_or(0);
        let announced = self.nodes.get(node).map_or(0, |node| node.arity as usize);
        let problem = if self.ended_twice > 0 {
            VisitProblem::EndedTwice(self.ended_twice)
        } else if !self.open.is_empty() {
            VisitProblem::NotEnded(self.open.len())
        } else {
            let visited = self.children(node).count();
            VisitProblem::Children { announced, visited }
        };
        let path = self.path_of(node);
        // The last announced child, the last announced child in it, and so on: where a call of `exit` may be missing
        // or extra.
        let mut types = Vec::new();
        while let Some(&Node {
            shape, arity, size, ..
        }) = self.nodes.get(node)
        {
            if matches!(shape.kind, NodeKind::Struct | NodeKind::TupleStruct) && !StandIn::is(shape)
            {
                types.push(short_name((shape.type_name)()));
            }
            // A node that has not ended has the size 1; its first child comes next.
            let first = (size == 1 && arity > 0).then_some(node + 1);
            let last = self.children(node).take(arity.max(1) as usize).last();
            match last.or(first) {
                Some(child) if child < self.nodes.len() => node = child,
                _ => break,
            }
        }
        if types.is_empty() {
            let shown = self.nodes.get(wrong.unwrap_or(0));
            types.extend(shown.map(|node| node.shape.name.to_owned()));
        }
        TreeError::WrongVisit {
            path,
            types,
            problem,
        }
    }

    /// Returns the path of a node that was added.
    fn path_of(&self, node: usize) -> KeyPath {
        let mut path = KeyPath::root();
        let mut above = 0;
        while above < node {
            let inside = |&(_, child): &(usize, usize)| {
                child <= node && node < child + self.nodes[child].size as usize
            };
            let Some((position, child)) = self.children(above).enumerate().find(inside) else {
                break;
            };
            path.extend_by(self.key(above, position));
            above = child;
        }
        path
    }

    /// Begins a copy of a node of another treedef. The caller adds the children and calls [`exit`](Self::exit).
    pub(crate) fn node_of(&mut self, treedef: &TreeDef, node: usize) {
        let Node {
            shape,
            arity,
            mut target,
            ..
        } = treedef.0.nodes[node];
        if let Shape::Dynamic(shape) = treedef.0.shape(node) {
            target = self.dynamic.position(shape);
        }
        self.enter_with_target(shape, arity, target);
        self.aux.extend_from_slice(treedef.0.aux_of(node));
    }

    /// Adds copies of a range of nodes of another treedef. The range must consist of whole subtrees. The aliases in the
    /// copies keep the indices of their targets.
    pub(crate) fn nodes_of(&mut self, treedef: &TreeDef, nodes: std::ops::Range<usize>) {
        let mut ends: Vec<usize> = Vec::new();
        for at in nodes {
            while ends.last().is_some_and(|&end| end <= at) {
                ends.pop();
                self.exit();
            }
            let node = treedef.0.nodes[at];
            if node.shape.kind == NodeKind::Leaf {
                self.leaf(node.shape);
            } else {
                self.node_of(treedef, at);
                ends.push(at + node.size as usize);
            }
        }
        ends.iter().for_each(|_| self.exit());
    }

    /// Adds a copy of `treedef` as the next child. Each leaf gets the shape that `leaf_shape` returns. Calls
    /// `leaf_shape` once for each leaf, in order.
    pub(crate) fn subtree_with(
        &mut self,
        treedef: &TreeDef,
        mut leaf_shape: impl FnMut() -> &'static NodeShape,
    ) {
        let first = self.nodes.len();
        self.subtree(treedef);
        let added = self.nodes[first..].iter_mut();
        for node in added.filter(|node| node.shape.kind == NodeKind::Leaf) {
            node.shape = leaf_shape();
        }
    }

    /// Adds a copy of `treedef` as the next child.
    pub(crate) fn subtree(&mut self, treedef: &TreeDef) {
        self.counts.leaves += treedef.num_leaves();
        self.counts.absent += treedef.0.counts.absent;
        self.counts.depth = self.counts.depth.max(self.open.len() + treedef.depth());
        let offset = count(self.aux.len());
        self.nodes.extend(treedef.0.nodes.iter().map(|node| Node {
            aux: node.aux + offset,
            ..*node
        }));
        self.aux.extend_from_slice(&treedef.0.aux);
        let first = self.nodes.len() - treedef.num_nodes();
        self.dynamic.adopt(&mut self.nodes[first..], &treedef.0);
        if treedef.0.counts.numbered > 0 {
            for node in &mut self.nodes[first..] {
                if let Some(number) = node.target() {
                    node.target = target_of(Some(number + self.counts.numbered));
                }
            }
            self.counts.numbered += treedef.0.counts.numbered;
        }
    }

    /// Adds `count` copies of the only child of the innermost open node. The child must contain no static values, aliases,
    /// shared nodes or references.
    pub(crate) fn repeat(&mut self, count: usize) {
        let first = self.open.last().map_or(0, |&open| open as usize + 1);
        let child = &self.nodes[first..];
        let leaves = child
            .iter()
            .filter(|node| node.shape.kind == NodeKind::Leaf);
        self.counts.leaves += count * leaves.count();
        let end = self.nodes.len() + count * child.len();
        self.nodes.reserve(end - self.nodes.len());
        while self.nodes.len() < end {
            let copied = (end - self.nodes.len()).min(self.nodes.len() - first);
            self.nodes.extend_from_within(first..first + copied);
        }
    }

    /// Adds an alias of node `number`. If `number` is `None`, the alias has no target.
    pub(crate) fn alias(&mut self, number: Option<usize>) {
        self.push(&shape::ALIAS, 0, target_of(number));
    }

    /// Adds a node that refers to a shared node or reference of a function's argument by its index in the argument.
    pub(crate) fn argument(&mut self, number: usize) {
        self.push(&shape::ARGUMENT, 0, count(number));
    }

    /// Returns the path that the next node will have.
    pub(crate) fn path(&self) -> KeyPath {
        self.path_to(self.open.len())
    }

    /// Returns the path of the open node at depth `depth`. The root has depth 0. If there is no such node, returns the
    /// path of the next node.
    pub(crate) fn path_to(&self, depth: usize) -> KeyPath {
        let mut path = KeyPath::root();
        for (level, &parent) in self.open.iter().enumerate().take(depth) {
            let parent = parent as usize;
            let child = self
                .open
                .get(level + 1)
                .map_or(self.nodes.len(), |&child| child as usize);
            path.extend_by(self.key(parent, self.children_before(parent, child)));
        }
        path
    }

    /// Returns the number of children of `parent` before the position `node`.
    fn children_before(&self, parent: usize, node: usize) -> usize {
        let mut sibling = parent + 1;
        let mut position = 0;
        while sibling < node {
            sibling += self.nodes[sibling].size as usize;
            position += 1;
        }
        position
    }

    fn key(&self, node: usize, position: usize) -> Option<PathKey> {
        let start = self.nodes[node].aux as usize;
        let end = self
            .nodes
            .get(node + 1)
            .map_or(self.aux.len(), |next| next.aux as usize);
        let shape = match self.nodes[node] {
            Node { shape, target, .. } if StandIn::is(shape) => {
                Shape::Dynamic(self.dynamic.get(target))
            }
            Node { shape, .. } => Shape::Static(shape),
        };
        key_below(shape, &self.aux[start..end], position)
    }

    pub(crate) fn finish(self) -> TreeDef {
        TreeDef::from_counted(
            self.nodes.into(),
            shared(self.aux),
            shared(self.dynamic.into_table()),
            self.counts,
        )
    }

    fn push(&mut self, shape: &'static NodeShape, arity: u32, target: u32) {
        self.nodes.push(Node {
            shape,
            arity,
            size: 1,
            aux: count(self.aux.len()),
            target,
        });
    }
}

/// Converts a number of children to 32 bits. A visit that announces more children is wrong in any case, because a tree
/// has fewer nodes; [`Builder::check`] reports it.
#[inline]
fn saturated(arity: usize) -> u32 {
    u32::try_from(arity).unwrap_or(u32::MAX)
}
