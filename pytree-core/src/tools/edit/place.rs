//! Finds the nodes of a model by path.
//!
//! A node is looked up in the tree form, which contains a shared node at each of its paths. It is changed in the graph
//! form, which contains a shared node once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::bug::expect_at;
use crate::base::error::TreeError;
use crate::base::identity::Identity;
use crate::base::path::KeyPath;
use crate::contract::arena::{Arena, ArenaWriter, Content};
use crate::contract::pytree::{Pytree, SharedVisit, Visitor};
use crate::node::leaf::Leaf;
use crate::node::shape::{DynamicShape, NodeShape};
use crate::node::statics::StaticRef;
use crate::tools::edit::replace::Target;
use crate::treedef::TreeDef;
use crate::trees::tree;

/// The nodes of a model in the tree form, and the position of each in the graph form.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) treedef: TreeDef,
    graph: Vec<usize>,
    /// The dynamic trees inside the model, each with the position of its first node in the graph form.
    dynamic: Vec<(usize, TreeDef)>,
}

impl Places {
    pub(crate) fn of<M: Pytree>(model: &M) -> Self {
        let treedef = tree::structure(model);
        let arena = Arena::default();
        let mut numbering = Numbering {
            treedef: &treedef,
            writer: arena.writer(),
            graph: Vec::with_capacity(treedef.num_nodes()),
            next: 0,
            dynamic: Vec::new(),
            first: HashMap::new(),
        };
        model.visit(&mut numbering);
        let Numbering { graph, dynamic, .. } = numbering;
        Self {
            treedef: treedef.clone(),
            graph,
            dynamic,
        }
    }

    /// Returns the node of the graph form that must be replaced to replace a node of the tree form.
    pub(crate) fn target(&self, node: usize) -> Target<'_> {
        let node = *expect_at(
            &self.graph,
            node,
            "a position in the graph form for each node",
        );
        let inside = self.dynamic.iter().find_map(|(start, treedef)| {
            let local = node.checked_sub(*start)?;
            (local < treedef.num_nodes()).then_some((treedef, local))
        });
        Target { node, inside }
    }

    /// Returns the nodes at a path, from the outermost to the innermost. There may be several, because a transparent
    /// node and its content have the same path.
    ///
    /// # Errors
    /// [`TreeError::NoNode`] with the most similar existing path, or [`TreeError::StaticField`] if the path leads to a
    /// static field.
    pub(crate) fn at(&self, path: &KeyPath) -> Result<Vec<usize>, TreeError> {
        let treedef = &self.treedef;
        let mut node = treedef.root();
        for key in path.keys() {
            let child = node.inside().child_with_key(key);
            node = child.ok_or_else(|| treedef.no_node(path))?;
        }
        Ok((node.position()..=node.inside().position()).collect())
    }
}

/// Maps the nodes of the tree form to the nodes of the graph form.
struct Numbering<'t> {
    treedef: &'t TreeDef,
    writer: ArenaWriter<'t>,
    graph: Vec<usize>,
    next: usize,
    dynamic: Vec<(usize, TreeDef)>,
    /// The position of the first occurrence of each shared node in the tree form.
    first: HashMap<Identity, usize>,
}

impl Numbering<'_> {
    fn node(&mut self) {
        self.graph.push(self.next);
        self.next += 1;
    }
}

impl<'a> Visitor<'a> for Numbering<'a> {
    fn enter(&mut self, _: &'static NodeShape, _: usize) {
        self.node();
    }
    fn enter_dynamic(&mut self, _: &Arc<DynamicShape>, _: usize) {
        self.node();
    }
    fn aux(&mut self, _: StaticRef<'a>) {}
    fn leaf(&mut self, _: &'a dyn Leaf) {
        self.node();
    }
    fn exit(&mut self) {}
    fn tree(&mut self, treedef: &'a TreeDef, _: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        self.dynamic.push((self.next, treedef.clone()));
        for _ in 0..treedef.num_nodes() {
            self.node();
        }
    }
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        let here = self.graph.len();
        let first = *self.first.entry(identity).or_insert(here);
        if first == here {
            return SharedVisit::Descend;
        }
        // A later occurrence is a single node of the graph form. Its content is at the first occurrence.
        let size = self.treedef.view(first).size();
        self.graph.extend_from_within(first..first + size);
        self.next += 1;
        SharedVisit::Skip
    }
    fn keep(&mut self, content: Content) -> &'a dyn Pytree {
        self.writer.push(content)
    }
}

/// The parents of all nodes, from which the path of a node is computed.
#[derive(Debug)]
pub(crate) struct Parents<'t> {
    treedef: &'t TreeDef,
    /// For each node, the position of its parent and its index among the children. The root is its own parent.
    parents: Vec<(usize, usize)>,
}

impl<'t> Parents<'t> {
    pub(crate) fn of(treedef: &'t TreeDef) -> Self {
        let mut parents = Vec::with_capacity(treedef.num_nodes());
        let mut open: Vec<(usize, usize)> = Vec::new();
        for at in 0..treedef.num_nodes() {
            match open.last_mut() {
                Some((parent, position)) => {
                    parents.push((*parent, *position));
                    *position += 1;
                }
                None => parents.push((0, 0)),
            }
            open.push((at, 0));
            while let Some(&(top, done)) = open.last() {
                if done < treedef.view(top).num_children() {
                    break;
                }
                open.pop();
            }
        }
        Self { treedef, parents }
    }

    /// Returns the path of a node.
    pub(crate) fn path(&self, node: usize) -> KeyPath {
        let mut keys = Vec::new();
        let mut node = node;
        while node > 0 {
            let (parent, position) = self.parents[node];
            keys.extend(self.treedef.view(parent).key(position));
            node = parent;
        }
        keys.into_iter().rev().collect()
    }
}
