//! Replaces a node of a model by another value.
//!
//! The model is visited again, with the new value instead of the old node. So nodes that the value shares with the rest
//! of the model stay shared.

use std::sync::Arc;

use crate::base::error::TreeError;
use crate::base::identity::Identity;
use crate::contract::arena::{Arena, Content};
use crate::contract::flatten::{Flatten, Sharing};
use crate::contract::pytree::{Pytree, SharedVisit, Visitor};
use crate::contract::unflatten::unflatten_unchecked;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::{DynamicShape, NodeKind, NodeShape};
use crate::node::statics::StaticRef;
use crate::treedef::{NodeView, TreeDef};
use crate::trees::tree;

/// The node to be replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'t> {
    /// The number of the node in the graph form.
    pub(crate) node: usize,
    /// If the node is in a dynamic tree: the dynamic tree, and the number of the node in it.
    pub(crate) inside: Option<(&'t TreeDef, usize)>,
}

/// Returns the model with `value` instead of the target node.
pub(crate) fn replace<M: Pytree, N: Pytree>(
    model: &M,
    target: Target<'_>,
    value: &N,
) -> Result<M, TreeError> {
    let spliced = target
        .inside
        .map(|(treedef, local)| Spliced::new(treedef, local, value));
    let mut leaves = Vec::new();
    let arena = Arena::default();
    let mut visitor = Replacing {
        inner: Flatten::new(Sharing::Preserve, |leaf: &dyn Leaf| {
            leaves.push(AnyLeaf::from_boxed(leaf.clone_boxed()));
        })
        .with_arena(&arena),
        target: target.node,
        value,
        spliced: spliced.as_ref(),
        next: 0,
        hidden: 0,
        identity: None,
    };
    model.visit(&mut visitor);
    let treedef = visitor.inner.finish();
    unflatten_unchecked(&treedef, leaves.into_iter())
}

/// Forwards a visit of a tree, except for one node.
struct Replacing<'a, F: FnMut(&'a dyn Leaf)> {
    inner: Flatten<'a, F>,
    target: usize,
    value: &'a dyn Pytree,
    spliced: Option<&'a Spliced<'a>>,
    /// The number of the next node in the graph form.
    next: usize,
    /// The current depth inside the replaced node, whose nodes are not forwarded; 0 outside.
    hidden: usize,
    /// The identity of the replaced node, if the node is shared, because it must be replaced at each of its paths.
    identity: Option<Identity>,
}

impl<'a, F: FnMut(&'a dyn Leaf)> Replacing<'a, F> {
    /// Returns whether the next node is forwarded. If the next node is the target, visits the new value and returns
    /// false.
    fn shows_next(&mut self) -> bool {
        if self.hidden > 0 {
            return false;
        }
        self.next += 1;
        if self.next - 1 == self.target {
            self.value.visit(&mut self.inner);
            return false;
        }
        true
    }
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for Replacing<'a, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        if self.shows_next() {
            self.inner.enter(shape, arity);
        } else {
            self.hidden += 1;
        }
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) {
        if self.shows_next() {
            self.inner.enter_dynamic(shape, arity);
        } else {
            self.hidden += 1;
        }
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if self.hidden == 0 {
            self.inner.aux(value);
        }
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if self.shows_next() {
            self.inner.leaf(leaf);
        }
    }
    fn exit(&mut self) {
        if self.hidden == 0 {
            self.inner.exit();
        } else {
            self.hidden -= 1;
        }
    }
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        if self.hidden > 0 {
            return;
        }
        let start = self.next;
        self.next += treedef.num_nodes();
        match self.spliced {
            Some(spliced) if (start..self.next).contains(&self.target) => {
                self.inner
                    .tree(&spliced.treedef, &mut spliced.leaves(leaves).into_iter());
            }
            _ => self.inner.tree(treedef, leaves),
        }
    }
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        if self.hidden > 0 {
            return SharedVisit::Skip;
        }
        if self.next == self.target {
            self.identity = Some(identity);
        }
        if self.identity == Some(identity) {
            self.value.visit(&mut self.inner);
            self.target = usize::MAX;
            return SharedVisit::Skip;
        }
        let visit = self.inner.shared(identity);
        self.next += usize::from(visit == SharedVisit::Skip);
        visit
    }
    fn keep(&mut self, content: Content) -> &'a dyn Pytree {
        self.inner.keep(content)
    }
}

/// A dynamic tree in which one node is replaced by another value.
struct Spliced<'a> {
    treedef: TreeDef,
    /// The number of leaves before the value.
    before: usize,
    /// The number of leaves that the value replaces.
    replaced: usize,
    values: Vec<&'a dyn Leaf>,
}

impl<'a> Spliced<'a> {
    fn new(treedef: &TreeDef, at: usize, value: &'a dyn Pytree) -> Self {
        let new = tree::structure(value);
        let is_leaf = |node: &NodeView<'_>| node.kind() == NodeKind::Leaf;
        Self {
            treedef: treedef.spliced(at, &new),
            before: treedef.nodes_in(0..at).filter(is_leaf).count(),
            replaced: treedef.view(at).num_leaves(),
            values: tree::any_leaves(value),
        }
    }

    fn leaves<'l>(&self, leaves: &mut dyn Iterator<Item = &'l dyn Leaf>) -> Vec<&'l dyn Leaf>
    where
        'a: 'l,
    {
        let mut all: Vec<&'l dyn Leaf> = leaves.take(self.before).collect();
        all.extend(self.values.iter().copied());
        all.extend(leaves.skip(self.replaced));
        all
    }
}
