//! Building treedefs: node by node, or by visiting a value.

use super::{Node, TreeDef};
use crate::leaf::Leaf;
use crate::path::KeyPath;
use crate::pytree::{Pytree, SharedVisit, Visitor};
use crate::shape::{self, NodeKind, NodeShape};
use crate::shared::{Identity, IdentityMap};
use crate::statics::{StaticBox, StaticRef};
use crate::unflatten::DEPTH_LIMIT;

/// Builds a treedef node by node, in preorder.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    nodes: Vec<Node>,
    aux: Vec<StaticBox>,
    open: Vec<u32>,
    leaves: usize,
    depth: usize,
}

impl Builder {
    pub(crate) fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        self.open.push(count(self.nodes.len()));
        self.depth = self.depth.max(self.open.len());
        self.push(shape, count(arity));
    }

    pub(crate) fn aux(&mut self, value: StaticBox) {
        self.aux.push(value);
    }

    pub(crate) fn leaf(&mut self, shape: &'static NodeShape) {
        self.leaves += 1;
        self.push(shape, 0);
    }

    pub(crate) fn absent(&mut self) {
        self.push(&shape::ABSENT, 0);
    }

    pub(crate) fn exit(&mut self) {
        if let Some(start) = self.open.pop() {
            let size = count(self.nodes.len()) - start;
            self.nodes[start as usize].size = size;
        }
    }

    /// Begins a node as another treedef has it, whose children follow.
    pub(crate) fn node_of(&mut self, treedef: &TreeDef, node: usize) {
        let Node { shape, arity, .. } = treedef.0.nodes[node];
        self.enter(shape, arity as usize);
        self.aux.extend_from_slice(treedef.0.aux_of(node));
    }

    /// Adds a whole tree as the next child.
    pub(crate) fn subtree(&mut self, treedef: &TreeDef) {
        self.leaves += treedef.num_leaves();
        self.depth = self.depth.max(self.open.len() + treedef.depth());
        let offset = count(self.aux.len());
        self.nodes.extend(treedef.0.nodes.iter().map(|node| Node {
            aux: node.aux + offset,
            ..*node
        }));
        self.aux.extend_from_slice(&treedef.0.aux);
    }

    pub(crate) fn finish(self) -> TreeDef {
        TreeDef::from_counted(self.nodes, self.aux, self.leaves, self.depth)
    }

    fn push(&mut self, shape: &'static NodeShape, arity: u32) {
        self.nodes.push(Node {
            shape,
            arity,
            size: 1,
            aux: count(self.aux.len()),
        });
    }
}

/// Counts of nodes fit in 32 bits: a tree of more would need over 100 GB.
fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// How a traversal treats shared nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// As trees do: a shared node is visited at each place.
    Duplicate,
    /// As graphs do: a shared node is visited once, and later places are aliases.
    Preserve,
}

/// Builds a treedef and hands each leaf on.
pub(crate) struct Flatten<'a, F: FnMut(&'a dyn Leaf)> {
    builder: Builder,
    on_leaf: F,
    sharing: Sharing,
    seen: IdentityMap,
    lifetime: std::marker::PhantomData<&'a ()>,
}

/// Ends a traversal whose recursion would overflow the stack.
#[cold]
fn too_deep(builder: &mut Builder) -> ! {
    let open = std::mem::take(&mut builder.open);
    let treedef = std::mem::take(builder).finish();
    let mut path = KeyPath::root();
    for pair in open.windows(2) {
        let (parent, child) = (pair[0] as usize, pair[1] as usize);
        let mut sibling = parent + 1;
        let mut position = 0;
        while sibling < child {
            sibling += treedef.0.nodes[sibling].size as usize;
            position += 1;
        }
        path.extend_by(treedef.child_key(parent, position));
    }
    panic!("{}", crate::error::too_deep(DEPTH_LIMIT, &path));
}

impl<'a, F: FnMut(&'a dyn Leaf)> Flatten<'a, F> {
    pub(crate) fn new(sharing: Sharing, on_leaf: F) -> Self {
        Self {
            builder: Builder::default(),
            on_leaf,
            sharing,
            seen: IdentityMap::default(),
            lifetime: std::marker::PhantomData,
        }
    }

    pub(crate) fn run<T: Pytree + ?Sized>(mut self, tree: &'a T) -> TreeDef {
        tree.visit(&mut self);
        self.finish()
    }

    /// The treedef of what was visited.
    pub(crate) fn finish(self) -> TreeDef {
        self.builder.finish()
    }
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for Flatten<'a, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        if self.builder.open.len() >= DEPTH_LIMIT {
            too_deep(&mut self.builder);
        }
        self.builder.enter(shape, arity);
    }
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        let start = self.builder.nodes.len();
        self.builder.subtree(treedef);
        let places = self.builder.nodes[start..]
            .iter_mut()
            .filter(|node| node.shape.kind == NodeKind::Leaf);
        for (node, leaf) in places.zip(leaves) {
            node.shape = leaf.leaf_shape();
            (self.on_leaf)(leaf);
        }
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        self.builder.aux(value.to_box());
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        self.builder.leaf(leaf.leaf_shape());
        (self.on_leaf)(leaf);
    }
    fn exit(&mut self) {
        self.builder.exit();
    }
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        if self.sharing == Sharing::Duplicate {
            return SharedVisit::Descend;
        }
        match self.seen.insert(identity) {
            Ok(()) => SharedVisit::Descend,
            Err(number) => {
                self.builder.enter(&shape::ALIAS, 0);
                self.builder.aux(StaticBox::new(number));
                self.builder.exit();
                SharedVisit::Skip
            }
        }
    }
}
