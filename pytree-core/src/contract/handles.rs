//! Handles of references of any type, in the order in which graph functions visit the references.

use std::any::Any;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::base::error::{ReferenceError, TreeError};
use crate::base::identity::{IdentityMap, NodeIdentity};
use crate::base::path::KeyPath;
use crate::contract::arena::{Arena, Content};
use crate::contract::commit::Staged;
use crate::contract::unflatten::Unflattener;
use crate::node::shape::NodeKind;
use crate::treedef::TreeDef;

/// The operations of graph functions on a reference of any type.
pub(crate) trait AnyCell: Send + Sync {
    fn identity(self: Arc<Self>) -> NodeIdentity;
    fn content(&self) -> Result<Content, ReferenceError>;
    /// Returns the address of the content.
    fn address(&self) -> usize;
    fn is_written(&self) -> bool;
    /// Returns whether the last write was on this thread.
    fn is_written_here(&self) -> bool;
    fn check_return(&self) -> Result<(), ReferenceError>;
    fn check_write(&self) -> Result<(), ReferenceError>;
    /// Begins or ends a claim of the cell. Only the thread that holds the lock for claims may call this method.
    fn claim(&self, is_claimed: bool);
    /// Replaces the content of a cell that the caller has claimed, and returns the old content.
    fn write_claimed(&self, content: AnyContent) -> Option<AnyContent>;
    /// Unflattens the new value of the reference, which [`Staged::write_all`] writes later.
    fn stage(self: Arc<Self>, source: &mut Unflattener<'_>) -> Result<Staged, TreeError>;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// The content of a reference of any type.
pub(crate) type AnyContent = Arc<dyn Any + Send + Sync>;

/// Returns the memory address of a content. Two contents that are alive have different addresses.
pub(crate) fn address<T: ?Sized>(content: &Arc<T>) -> usize {
    Arc::as_ptr(content).cast::<()>() as usize
}

/// A handle of a reference to a value of any type.
#[derive(Clone)]
pub struct AnyReference(pub(crate) Arc<dyn AnyCell>);

impl AnyReference {
    /// Returns the identity of the reference.
    pub fn identity(&self) -> NodeIdentity {
        Arc::clone(&self.0).identity()
    }

    /// Returns whether the reference was written since it was created.
    pub(crate) fn is_written(&self) -> bool {
        self.0.is_written()
    }

    /// Checks that the reference was created at the current trace level.
    pub(crate) fn check_return(&self) -> Result<(), ReferenceError> {
        self.0.check_return()
    }

    /// Returns the current content.
    pub(crate) fn content(&self) -> Result<Content, ReferenceError> {
        self.0.content()
    }

    /// Returns this handle as an `Arc<dyn Any>`, the type in which handles of shared nodes are stored.
    pub(crate) fn node(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.0).into_any()
    }
}

impl fmt::Debug for AnyReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyReference({:?})", self.identity())
    }
}

/// The references and the shared nodes of a value. The references are in the order in which graph functions visit them.
#[derive(Clone)]
pub struct References {
    pub(crate) cells: Vec<AnyReference>,
    /// The handles of all references and shared nodes, indexed by the number that aliases use. `None` if the handle was
    /// not requested.
    nodes: Vec<Option<Arc<dyn Any + Send + Sync>>>,
    /// The index in `nodes` of each node, by the identity of the node. Computed at the first request. Boxed, because
    /// every call moves this struct.
    numbers: OnceCell<Box<IdentityMap>>,
    /// The contents that were read from the references. `None` if they were not read, or if there are no references.
    /// Boxed, because every call moves this struct.
    read: Option<Box<Read>>,
}

/// The contents that a call has read from references.
#[derive(Clone)]
struct Read {
    /// The content of each reference when it was read.
    contents: Arena,
    /// The structure of the value that contains the references.
    treedef: TreeDef,
    /// The references of another value that the same call has read.
    beside: Option<Box<References>>,
}

impl References {
    /// Returns the number of references.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns whether there are no references.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the identities of the references.
    pub fn identities(&self) -> Vec<NodeIdentity> {
        self.cells.iter().map(AnyReference::identity).collect()
    }

    /// Returns the positions of the references that were written since they were created.
    pub fn written(&self) -> Vec<usize> {
        let numbered = self.cells.iter().enumerate();
        numbered
            .filter(|(_, reference)| reference.is_written())
            .map(|(position, _)| position)
            .collect()
    }

    /// Returns the same references without the shared nodes. A later visit does not recognize the removed shared nodes.
    #[must_use]
    pub fn without_shared(self) -> Self {
        self.retained(|_| false)
    }

    /// Returns the same references, and only the shared nodes for whose indices `keeps` returns true.
    pub(crate) fn retained(mut self, keeps: impl Fn(u32) -> bool) -> Self {
        if self.nodes.len() == self.cells.len() {
            return self;
        }
        let references: HashSet<NodeIdentity> = self.identities().into_iter().collect();
        for (node, number) in self.nodes.iter_mut().zip(0..) {
            let is_reference = |node| references.contains(&NodeIdentity::of(node));
            if !keeps(number) && !node.as_ref().is_some_and(is_reference) {
                *node = None;
            }
        }
        self.numbers = OnceCell::new();
        self
    }

    /// Adds the references of another value that the same call has read. Afterwards, the call writes to references only
    /// if the references of both values are unchanged.
    #[must_use]
    pub fn beside(mut self, other: Self) -> Self {
        // If this value or the other value has no read references, there is nothing to compare.
        if let Some(read) = self.read.as_mut().filter(|_| other.read.is_some()) {
            read.beside = Some(Box::new(other));
        }
        self
    }

    /// Appends the references of another value that the same call has read. The result contains the references of a tuple
    /// of the two values. The values must not share a node.
    #[must_use]
    pub fn followed_by(mut self, other: Self) -> Self {
        let (cells, nodes) = (other.cells.clone(), other.nodes.clone());
        if self.cells.is_empty() {
            self.read = other.read;
        } else {
            self = self.beside(other);
        }
        self.cells.extend(cells);
        self.nodes.extend(nodes);
        self.numbers = OnceCell::new();
        self
    }

    /// Adds `contents`, which were read from these references. `treedef` is the structure of the value that contains
    /// the references.
    pub(crate) fn with_read(mut self, contents: Arena, treedef: &TreeDef) -> Self {
        if !self.cells.is_empty() {
            self.read = Some(Box::new(Read {
                contents,
                treedef: treedef.clone(),
                beside: None,
            }));
        }
        self
    }

    /// Returns the position of the first reference whose content has changed since it was read. The references that
    /// [`beside`](Self::beside) added come after the references of this value.
    pub(crate) fn outdated(&self) -> Option<usize> {
        let read = self.read.as_deref()?;
        let is_same = |cell: &AnyReference, content: &Content| cell.0.address() == address(content);
        let position = read.contents.first_other(&self.cells, is_same);
        position.or_else(|| {
            let position = read.beside.as_deref()?.outdated()?;
            Some(self.cells.len() + position)
        })
    }

    /// Returns whether the reference at `position` was last written by this thread; see [`outdated`](Self::outdated).
    pub(crate) fn is_written_here(&self, position: usize) -> bool {
        match (self.cells.get(position), self.read.as_deref()) {
            (Some(cell), _) => cell.0.is_written_here(),
            (
                None,
                Some(Read {
                    beside: Some(beside),
                    ..
                }),
            ) => beside.is_written_here(position - self.len()),
            _ => false,
        }
    }

    /// Returns the path of the reference at `position` in the value that the references were read from.
    pub(crate) fn path(&self, position: usize) -> KeyPath {
        let Some(read) = self.read.as_deref() else {
            return KeyPath::default();
        };
        if let (Some(position), Some(beside)) = (position.checked_sub(self.len()), &read.beside) {
            return beside.path(position);
        }
        let nodes = read.treedef.nodes();
        let mut references = nodes.filter(|node| node.kind() == NodeKind::Reference);
        let node = references.nth(position);
        node.map(|node| node.path()).unwrap_or_default()
    }

    /// Returns only the references and shared nodes with the indices in `numbers`. The new index of each node is the
    /// position of its old index in `numbers`.
    pub(crate) fn only(&self, numbers: impl IntoIterator<Item = usize>) -> Self {
        let references: HashMap<NodeIdentity, &AnyReference> = self
            .cells
            .iter()
            .map(|reference| (reference.identity(), reference))
            .collect();
        let mut kept = Self::default();
        for node in numbers.into_iter().map(|number| self.node(number)) {
            let identity = node.as_ref().map(NodeIdentity::of);
            match identity.and_then(|identity| references.get(&identity)) {
                Some(reference) => kept.push_reference((*reference).clone()),
                None => kept.push(node),
            }
        }
        kept
    }

    /// Returns the index of the reference or shared node with this identity, or `None` if `self` does not contain it.
    pub(crate) fn number(&self, identity: NodeIdentity) -> Option<usize> {
        let numbers = self.numbers.get_or_init(|| {
            let mut numbers = IdentityMap::default();
            for (number, node) in self.nodes.iter().enumerate() {
                if let Some(node) = node {
                    numbers.insert_as(NodeIdentity::of(node), number);
                }
            }
            Box::new(numbers)
        });
        numbers.get(identity)
    }

    /// Returns the handle of node `number`, or `None` if the handle was not requested.
    #[inline]
    pub(crate) fn node(&self, number: usize) -> Option<Arc<dyn Any + Send + Sync>> {
        self.nodes.get(number).cloned().flatten()
    }

    /// Replaces the handles of all nodes by `nodes`, the handles of the nodes in a newly built value.
    pub(crate) fn of_built(self, nodes: impl Iterator<Item = Arc<dyn Any + Send + Sync>>) -> Self {
        Self {
            nodes: nodes.map(Some).collect(),
            ..self
        }
    }

    /// Returns the number of references and shared nodes.
    pub(crate) fn num_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Adds the next shared node. `node` is `None` if its handle was not requested.
    pub(crate) fn push(&mut self, node: Option<Arc<dyn Any + Send + Sync>>) {
        self.nodes.push(node);
    }

    /// Reserves memory for the handles of `nodes` more nodes.
    pub(crate) fn reserve(&mut self, nodes: usize) {
        self.nodes.reserve(nodes);
    }

    /// Adds the next reference.
    pub(crate) fn push_reference(&mut self, reference: AnyReference) {
        if self.cells.is_empty() {
            self.cells.reserve(self.nodes.capacity());
        }
        self.nodes.push(Some(reference.node()));
        self.cells.push(reference);
    }

    /// Drops the handle of each shared node for whose index `keeps` returns false. References are not dropped.
    pub(crate) fn release(&mut self, keeps: impl Fn(u32) -> bool) {
        for (node, number) in self.nodes.iter_mut().zip(0..) {
            if !keeps(number) {
                *node = None;
            }
        }
    }

    /// Adds `count` nodes without handles.
    pub(crate) fn skip(&mut self, count: usize) {
        self.nodes.resize(self.nodes.len() + count, None);
    }
}

impl Default for References {
    #[inline]
    fn default() -> Self {
        Self {
            cells: Vec::new(),
            nodes: Vec::new(),
            numbers: OnceCell::new(),
            read: None,
        }
    }
}

impl fmt::Debug for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.cells).finish()
    }
}
