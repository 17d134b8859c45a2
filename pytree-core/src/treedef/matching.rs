//! Matching a value against a stored treedef, without building one.

use super::keys::path_of;
use super::{Inner, Sharing, Step, TreeDef};
use crate::leaf::Leaf;
use crate::pytree::{Pytree, SharedVisit, Visitor};
use crate::shape::{self, NodeShape};
use crate::shared::{Identity, IdentityMap};
use crate::statics::{StaticBox, StaticRef};
use crate::unflatten::DEPTH_LIMIT;

/// Compares a tree with a stored treedef without building one, handing each leaf on.
pub(crate) struct Match<'a, 't, F: FnMut(&'a dyn Leaf)> {
    treedef: &'t Inner,
    on_leaf: F,
    node: usize,
    aux: usize,
    matches: bool,
    /// The number of nodes that were entered and not left.
    depth: usize,
    sharing: Sharing,
    seen: IdentityMap,
    lifetime: std::marker::PhantomData<&'a ()>,
}

impl<'a, 't, F: FnMut(&'a dyn Leaf)> Match<'a, 't, F> {
    pub(crate) fn new(treedef: &'t TreeDef, sharing: Sharing, on_leaf: F) -> Self {
        Self {
            treedef: &treedef.0,
            on_leaf,
            node: 0,
            aux: 0,
            matches: true,
            depth: 0,
            sharing,
            seen: IdentityMap::default(),
            lifetime: std::marker::PhantomData,
        }
    }

    pub(crate) fn run<T: Pytree + ?Sized>(mut self, tree: &'a T) -> bool {
        tree.visit(&mut self);
        self.matches && self.node == self.treedef.nodes.len() && self.aux == self.treedef.aux.len()
    }

    fn node(&mut self, shape: &'static NodeShape, arity: usize) {
        if !self.matches {
            return;
        }
        match self.treedef.nodes.get(self.node) {
            Some(node) if node.arity as usize == arity && node.shape == shape => self.node += 1,
            _ => self.matches = false,
        }
    }
}

/// Ends a traversal whose recursion would overflow the stack, naming the last place that matches.
#[cold]
fn too_deep(treedef: &Inner, node: usize) -> ! {
    let last = treedef.nodes.len().saturating_sub(1);
    let path = path_of(treedef, node.min(last));
    panic!("{}", crate::error::too_deep(DEPTH_LIMIT, &path));
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for Match<'a, '_, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        if self.depth == DEPTH_LIMIT {
            too_deep(self.treedef, self.node);
        }
        self.depth += 1;
        self.node(shape, arity);
    }
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        // The nodes of a dynamic tree are no recursion: they don't count.
        treedef.show_nodes(leaves, |step| match step {
            Step::Enter(shape, arity) => self.node(shape, arity),
            Step::Aux(value) => self.aux(value),
            Step::Leaf(leaf) => self.leaf(leaf),
            Step::Absent => self.node(&shape::ABSENT, 0),
            Step::Exit => {}
        });
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if self.matches {
            match self.treedef.aux.get(self.aux) {
                Some(stored) if value == *stored => self.aux += 1,
                _ => self.matches = false,
            }
        }
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if self.matches {
            self.node(&shape::LEAF, 0);
            (self.on_leaf)(leaf);
        }
    }
    fn exit(&mut self) {
        self.depth -= 1;
    }
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        if self.sharing == Sharing::Duplicate {
            return SharedVisit::Descend;
        }
        match self.seen.insert(identity) {
            Ok(()) => SharedVisit::Descend,
            Err(number) => {
                self.node(&shape::ALIAS, 0);
                if self.matches {
                    match self
                        .treedef
                        .aux
                        .get(self.aux)
                        .and_then(StaticBox::downcast_ref::<usize>)
                    {
                        Some(&stored) if stored == number => self.aux += 1,
                        _ => self.matches = false,
                    }
                }
                SharedVisit::Skip
            }
        }
    }
}
