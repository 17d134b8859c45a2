//! Matching a value against a stored treedef, without building one.

use super::{Inner, TreeDef};
use crate::leaf::Leaf;
use crate::pytree::{Pytree, SharedVisit, Visitor};
use crate::shape::{self, NodeShape};
use crate::shared::{Identity, IdentityMap};
use crate::statics::{StaticBox, StaticRef};

/// Compares a tree with a stored treedef without building one, handing each leaf on.
pub(crate) struct Match<'a, 't, F: FnMut(&'a dyn Leaf)> {
    treedef: &'t Inner,
    on_leaf: F,
    node: usize,
    aux: usize,
    matches: bool,
    seen: IdentityMap,
    lifetime: std::marker::PhantomData<&'a ()>,
}

impl<'a, 't, F: FnMut(&'a dyn Leaf)> Match<'a, 't, F> {
    pub(crate) fn new(treedef: &'t TreeDef, on_leaf: F) -> Self {
        Self {
            treedef: &treedef.0,
            on_leaf,
            node: 0,
            aux: 0,
            matches: true,
            seen: IdentityMap::default(),
            lifetime: std::marker::PhantomData,
        }
    }

    pub(crate) fn run<T: Pytree + ?Sized>(mut self, tree: &'a T) -> bool {
        tree.visit(&mut self);
        self.matches && self.node == self.treedef.nodes.len() && self.aux == self.treedef.aux.len()
    }

    fn node(&mut self, shape: &'static NodeShape, arity: usize) {
        match self.treedef.nodes.get(self.node) {
            Some(node) if node.arity as usize == arity && node.shape == shape => self.node += 1,
            _ => self.matches = false,
        }
    }
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for Match<'a, '_, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        if self.matches {
            self.node(shape, arity);
        }
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
    fn exit(&mut self) {}
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        match self.seen.insert(identity) {
            Ok(()) => SharedVisit::Descend,
            Err(number) => {
                if self.matches {
                    self.node(&shape::ALIAS, 0);
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
