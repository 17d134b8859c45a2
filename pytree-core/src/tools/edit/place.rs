//! Finds the nodes of a model by path.
//!
//! A node is looked up in the tree form, which contains a shared node at each of its paths. The node is changed in the
//! graph form, which contains a shared node once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::error::TreeError;
use crate::base::identity::NodeIdentity;
use crate::base::path::KeyPath;
use crate::contract::arena::{Arena, Content};
use crate::contract::flatten::{Flatten, Sharing};
use crate::contract::pytree::{Pytree, Visit, Visitor};
use crate::node::leaf::Leaf;
use crate::node::shape::{DynamicShape, NodeShape};
use crate::node::statics::StaticRef;
use crate::treedef::TreeDef;

/// The nodes of a model in the graph form.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) treedef: TreeDef,
    /// The identity of each shared node or reference, by the position of the node.
    identities: HashMap<usize, NodeIdentity>,
    /// The dynamic trees inside the model, each with the position of its first node.
    dynamic: Vec<(usize, TreeDef)>,
}

impl Places {
    /// # Errors
    /// - [`TreeError::Reference`] if a reference may not be read here.
    /// - [`TreeError::TooDeep`] if the model is nested too deep.
    pub(crate) fn of<M: Pytree>(model: &M) -> Result<Self, TreeError> {
        let arena = Arena::default();
        let mut visitor = Recording {
            inner: Flatten::new(Sharing::Preserve, |_| Ok(())).with_arena(&arena),
            identities: HashMap::new(),
            dynamic: Vec::new(),
        };
        model.visit(&mut visitor);
        Ok(Self {
            treedef: visitor.inner.finish()?,
            identities: visitor.identities,
            dynamic: visitor.dynamic,
        })
    }

    /// Returns the part of the graph form that must be replaced to replace the node at position `node`.
    pub(crate) fn target(&self, node: usize) -> Target<'_> {
        let inside = self.dynamic.iter().find_map(|(start, treedef)| {
            let local = node.checked_sub(*start)?;
            (local < treedef.num_nodes()).then_some((treedef, local))
        });
        Target {
            node,
            identity: self.identity_of(node),
            inside,
        }
    }

    /// Returns the identity of a shared node or reference. Returns `None` for any other node.
    pub(crate) fn identity_of(&self, node: usize) -> Option<NodeIdentity> {
        self.identities.get(&node).copied()
    }

    /// Returns the number of nodes at and below a node.
    pub(crate) fn size_of(&self, node: usize) -> usize {
        self.treedef.view(node).size()
    }

    /// Returns the nodes at a path, from the outermost to the innermost. There may be several nodes, because a
    /// transparent node and its content have the same path.
    ///
    /// # Errors
    /// - [`TreeError::NoNode`] with the most similar existing path.
    /// - [`TreeError::StaticField`] if the path leads to a static field.
    pub(crate) fn at(&self, path: &KeyPath) -> Result<Vec<usize>, TreeError> {
        let node = self.treedef.follow(path);
        let node = node.map_err(|_| self.treedef.no_node(path))?;
        Ok(self.treedef.nodes_at_place_of(node))
    }
}

/// Flattens a model, and records its shared nodes and dynamic trees.
struct Recording<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> {
    inner: Flatten<'a, F>,
    identities: HashMap<usize, NodeIdentity>,
    dynamic: Vec<(usize, TreeDef)>,
}

impl<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> Visitor<'a> for Recording<'a, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) -> Visit {
        self.inner.enter(shape, arity)
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) -> Visit {
        self.inner.enter_dynamic(shape, arity)
    }
    fn refuse(&mut self, error: TreeError) {
        self.inner.refuse(error);
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        self.inner.aux(value);
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        self.inner.leaf(leaf);
    }
    fn exit(&mut self) {
        self.inner.exit();
    }
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        self.dynamic.push((self.inner.position(), treedef.clone()));
        self.inner.tree(treedef, leaves);
    }
    fn shared(&mut self, identity: NodeIdentity) -> Visit {
        let position = self.inner.position();
        let visit = self.inner.shared(identity);
        if visit == Visit::Descend {
            self.identities.insert(position, identity);
        }
        visit
    }
    fn keep(&mut self, content: Content) -> &'a dyn Pytree {
        self.inner.keep(content)
    }
    fn weak(&mut self, target: Option<NodeIdentity>) {
        self.inner.weak(target);
    }
}

/// The parents of all nodes, which determine the path of each node.
#[derive(Debug)]
pub(crate) struct Parents<'t> {
    treedef: &'t TreeDef,
    /// For each node, the position of its parent and the index of the node among the parent's children. The root is its
    /// own parent.
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

/// A node to be replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'t> {
    /// The position of the node in the graph form.
    pub(crate) node: usize,
    /// The identity of the node if it is a shared node or a reference, which is replaced at each of its paths.
    pub(crate) identity: Option<NodeIdentity>,
    /// If the node is in a dynamic tree: the structure of this tree, and the position of the node in this tree.
    pub(crate) inside: Option<(&'t TreeDef, usize)>,
}
