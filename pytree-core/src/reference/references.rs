//! The references of a value: handles whatever they hold, in the order in which graph functions meet them.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::access::allowed;
use super::cell::{AnyCell, Cell};
use crate::identity::{Identity, IdentityMap};
use crate::kept::Content;

/// A handle of a reference, whatever it holds.
#[derive(Clone)]
pub struct AnyReference(pub(crate) Arc<dyn AnyCell>);

impl AnyReference {
    /// The reference's identity.
    pub fn identity(&self) -> Identity {
        Arc::clone(&self.0).identity()
    }

    /// Whether it was written since it was made.
    pub fn is_written(&self) -> bool {
        self.0.is_written()
    }

    /// Panics unless it was made at the level of the code that calls.
    #[track_caller]
    pub(crate) fn check_return(&self) {
        allowed(self.0.check_return());
    }

    /// What it holds at the moment.
    #[track_caller]
    pub(crate) fn content(&self) -> Content {
        allowed(self.0.content())
    }

    /// The handle, as that of any node.
    pub(crate) fn node(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.0).into_any()
    }

    /// The cell, if it holds a `T`.
    pub(crate) fn cell<T: Send + Sync + 'static>(&self) -> Option<Arc<Cell<T>>> {
        self.node().downcast().ok()
    }
}

impl fmt::Debug for AnyReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyReference({:?})", self.identity())
    }
}

/// The references of a value, in the order in which a graph function meets them, and its shared nodes.
#[derive(Clone)]
pub struct References {
    pub(crate) cells: Vec<AnyReference>,
    /// The handles of all nodes that aliases refer to, by their numbers: those of references and of shared nodes.
    /// None of one that nobody asks for.
    nodes: Vec<Option<Arc<dyn Any + Send + Sync>>>,
    /// Whether shared nodes are known where they are met again, too.
    knows_shared: bool,
    /// The numbers of those that are known, since they were asked for first; boxed, for every call moves this.
    numbers: OnceLock<Box<IdentityMap>>,
}

impl References {
    /// How many references there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is no reference.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// What tells the references apart.
    pub fn identities(&self) -> Vec<Identity> {
        self.cells.iter().map(AnyReference::identity).collect()
    }

    /// The positions of the references that were written since they were made.
    pub fn written(&self) -> Vec<usize> {
        let numbered = self.cells.iter().enumerate();
        numbered
            .filter(|(_, reference)| reference.is_written())
            .map(|(position, _)| position)
            .collect()
    }

    /// The same references; shared nodes are not known where they are met again.
    #[must_use]
    pub fn without_shared(self) -> Self {
        Self {
            knows_shared: false,
            numbers: OnceLock::new(),
            ..self
        }
    }

    /// The nodes of these numbers, which are numbered anew.
    pub(crate) fn only(&self, numbers: impl IntoIterator<Item = usize>) -> Self {
        let references: HashMap<Identity, &AnyReference> = self
            .cells
            .iter()
            .map(|reference| (reference.identity(), reference))
            .collect();
        let mut kept = Self::default();
        for node in numbers.into_iter().filter_map(|number| self.node(number)) {
            match references.get(&Identity::of(&node)) {
                Some(reference) => kept.push_reference((*reference).clone()),
                None => kept.push(Some(node)),
            }
        }
        kept
    }

    /// The number of a node that is known.
    pub(crate) fn number(&self, identity: Identity) -> Option<usize> {
        let numbers = self.numbers.get_or_init(|| {
            let mut numbers = IdentityMap::default();
            for (number, node) in self.nodes.iter().enumerate() {
                if let Some(node) = node {
                    numbers.insert_as(Identity::of(node), number);
                }
            }
            if self.knows_shared {
                return Box::new(numbers);
            }
            let references = self.cells.iter().map(AnyReference::identity);
            Box::new(numbers.only(references))
        });
        numbers.get(identity)
    }

    /// The handle of a node.
    pub(crate) fn node(&self, number: usize) -> Option<Arc<dyn Any + Send + Sync>> {
        self.nodes.get(number).cloned().flatten()
    }

    /// The references of a value that is built, and the handles of its nodes.
    pub(crate) fn of_built(self, nodes: impl Iterator<Item = Arc<dyn Any + Send + Sync>>) -> Self {
        Self {
            nodes: nodes.map(Some).collect(),
            ..self
        }
    }

    /// How many nodes were met.
    pub(crate) fn num_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Adds the shared node that was met next, with its handle if somebody asks for it.
    pub(crate) fn push(&mut self, node: Option<Arc<dyn Any + Send + Sync>>) {
        self.nodes.push(node);
    }

    /// Adds the reference that was met next.
    pub(crate) fn push_reference(&mut self, reference: AnyReference) {
        self.nodes.push(Some(reference.node()));
        self.cells.push(reference);
    }

    /// Lets go of the nodes for whose numbers `keeps` is false; references stay.
    pub(crate) fn release(&mut self, keeps: impl Fn(u32) -> bool) {
        for (node, number) in self.nodes.iter_mut().zip(0..) {
            if !keeps(number) {
                *node = None;
            }
        }
    }

    /// Adds nodes that have no identity any more.
    pub(crate) fn skip(&mut self, count: usize) {
        self.nodes.resize(self.nodes.len() + count, None);
    }
}

impl Default for References {
    fn default() -> Self {
        Self {
            cells: Vec::new(),
            nodes: Vec::new(),
            knows_shared: true,
            numbers: OnceLock::new(),
        }
    }
}

impl fmt::Debug for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.cells).finish()
    }
}
