//! Replaces a node of a model by another value.
//!
//! The model is visited again, and the new value is visited instead of the old node. So a node that is in both the
//! value and the rest of the model stays shared.

use std::sync::Arc;

use crate::base::error::TreeError;
use crate::base::identity::NodeIdentity;
use crate::contract::arena::{Arena, Content};
use crate::contract::flatten::{Flatten, Sharing};
use crate::contract::pytree::{Pytree, SharedVisit, Visitor};
use crate::contract::unflatten::unflatten_unchecked;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::{DynamicShape, NodeKind, NodeShape};
use crate::node::statics::StaticRef;
use crate::treedef::{NodeView, TreeDef};
use crate::trees::functions::flatten_as_tree;

/// The node to be replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'t> {
    /// The number of the node in the graph form.
    pub(crate) node: usize,
    /// The identity of the node if it is a shared node or a reference, which is replaced at each of its paths.
    pub(crate) identity: Option<NodeIdentity>,
    /// If the node is in a dynamic tree: the structure of this tree, and the number of the node in it.
    pub(crate) inside: Option<(&'t TreeDef, usize)>,
}

/// Returns the model with `value` instead of the target node.
pub(crate) fn replace<M: Pytree, N: Pytree>(
    model: &M,
    target: Target<'_>,
    value: &N,
) -> Result<M, TreeError> {
    let mut leaves = Vec::new();
    let arena = Arena::default();
    let spliced = target
        .inside
        .map(|(treedef, local)| Spliced::new(treedef, local, value, &arena))
        .transpose()?;
    let mut visitor = Replacing {
        inner: Flatten::new(Sharing::Preserve, |leaf: &dyn Leaf| {
            leaves.push(AnyLeaf::from_boxed(leaf.clone_boxed()));
        })
        .with_arena(&arena),
        target: Some(target.node),
        identity: target.identity,
        becomes: target.identity.and_then(|_| FirstShared::of(value)),
        value,
        spliced: spliced.as_ref(),
        hidden: 0,
    };
    model.visit(&mut visitor);
    let treedef = visitor.inner.finish();
    unflatten_unchecked(&treedef, leaves.into_iter())
}

/// A visitor that flattens a model, except for one node: it flattens `value` instead of this node.
struct Replacing<'a, F: FnMut(&'a dyn Leaf)> {
    inner: Flatten<'a, F>,
    /// The position of the node to be replaced; `None` after this node was visited. Up to this node, the new graph and
    /// the old graph have the same nodes, so the position is valid in both.
    target: Option<usize>,
    /// The identity of the replaced node, if the node is shared: the node is replaced at each of its paths.
    identity: Option<NodeIdentity>,
    /// The identity of the new shared node. Weak edges to the old node are redirected to the new node.
    becomes: Option<NodeIdentity>,
    value: &'a dyn Pytree,
    spliced: Option<&'a Spliced<'a>>,
    /// The current depth inside the replaced node, whose content is skipped; 0 outside of this node.
    hidden: usize,
}

impl<'a, F: FnMut(&'a dyn Leaf)> Replacing<'a, F> {
    /// Returns whether the next node is the target. Returns true only once.
    fn is_at_target(&mut self) -> bool {
        self.target
            .take_if(|target| *target == self.inner.position())
            .is_some()
    }

    /// Returns whether the next node is flattened. If the next node is the target, flattens the new value and returns
    /// false.
    fn shows_next(&mut self) -> bool {
        if self.hidden > 0 {
            return false;
        }
        if self.is_at_target() {
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
        let start = self.inner.position();
        let nodes = start..start + treedef.num_nodes();
        match self.spliced {
            Some(spliced)
                if self
                    .target
                    .take_if(|target| nodes.contains(target))
                    .is_some() =>
            {
                self.inner
                    .tree(&spliced.treedef, &mut spliced.leaves(leaves).into_iter());
            }
            _ => self.inner.tree(treedef, leaves),
        }
    }
    fn shared(&mut self, identity: NodeIdentity) -> SharedVisit {
        if self.hidden > 0 {
            return SharedVisit::Skip;
        }
        if self.identity == Some(identity) {
            self.target = None;
            self.value.visit(&mut self.inner);
            return SharedVisit::Skip;
        }
        self.inner.shared(identity)
    }
    fn weak(&mut self, target: Option<NodeIdentity>) {
        if self.hidden > 0 {
            return;
        }
        if self.is_at_target() {
            self.value.visit(&mut self.inner);
        } else if target.is_some() && target == self.identity {
            self.inner.weak(self.becomes);
        } else {
            self.inner.weak(target);
        }
    }
    fn keep(&mut self, content: Content) -> &'a dyn Pytree {
        self.inner.keep(content)
    }
}

/// Finds the identity of a shared node or reference.
#[derive(Default)]
struct FirstShared(Option<NodeIdentity>);

impl FirstShared {
    /// Returns the identity of the first shared node or reference in a value.
    fn of(value: &dyn Pytree) -> Option<NodeIdentity> {
        let mut visitor = Self::default();
        value.visit(&mut visitor);
        visitor.0
    }
}

impl<'a> Visitor<'a> for FirstShared {
    fn enter(&mut self, _: &'static NodeShape, _: usize) {}
    fn enter_dynamic(&mut self, _: &Arc<DynamicShape>, _: usize) {}
    fn aux(&mut self, _: StaticRef<'a>) {}
    fn leaf(&mut self, _: &'a dyn Leaf) {}
    fn exit(&mut self) {}
    fn shared(&mut self, identity: NodeIdentity) -> SharedVisit {
        self.0.get_or_insert(identity);
        SharedVisit::Skip
    }
    fn weak(&mut self, _: Option<NodeIdentity>) {}
}

/// A dynamic tree in which one node is replaced by another value.
struct Spliced<'a> {
    treedef: TreeDef,
    /// The number of leaves before the node that the value replaces.
    before: usize,
    /// The number of leaves of the node that the value replaces.
    replaced: usize,
    values: Vec<&'a dyn Leaf>,
}

impl<'a> Spliced<'a> {
    /// Replaces the node at position `at` by a value. A shared node in the value is copied to each of its paths.
    fn new(
        treedef: &TreeDef,
        at: usize,
        value: &'a dyn Pytree,
        arena: &'a Arena,
    ) -> Result<Self, TreeError> {
        let (values, new) = flatten_as_tree(value, arena);
        if !new.has_tree_form() {
            return Err(TreeError::Build {
                node: "dynamic tree",
                reason: "the value contains itself, or has a weak edge to one of its nodes; a dynamic tree cannot represent either".to_owned(),
            });
        }
        let is_leaf = |node: &NodeView<'_>| node.kind() == NodeKind::Leaf;
        Ok(Self {
            treedef: treedef.spliced(at, &new),
            before: treedef.nodes_in(0..at).filter(is_leaf).count(),
            replaced: treedef.view(at).num_leaves(),
            values,
        })
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
