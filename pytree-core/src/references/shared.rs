//! Shared nodes: one value at several paths of a tree.
//!
//! A [`Shared`] is immutable and reference counted, and its identity is its address. Tree functions visit a shared node
//! at each of its paths, as JAX does. Graph functions, which all transformations and checkpoints use, visit a shared
//! node once and rebuild the sharing. A [`WeakShared`] edge refers to a shared node without keeping the node alive, so
//! such an edge can close a cycle.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{self, Arc, OnceLock};

use pytree_base::bug::bug;

use crate::base::error::TreeError;
use crate::base::identity::NodeIdentity;
use crate::contract::pytree::{Pytree, SharedNode, Visit, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::node::shape;

/// A node at several paths of a tree, for instance tied weights.
///
/// Cloning creates another handle of the node, and a handle dereferences to `&T`. The gradient of the node is the sum
/// of the gradients at its paths. The node is counted, optimized and saved once.
///
/// As with an `Arc`, `==` and hashes compare the values: two nodes with equal values are equal. [`same`](Self::same)
/// compares the identities. The value never changes, so a node may be the key of a map, although Clippy's lint
/// `mutable_key_type` warns.
///
/// A function that updates a value in place, such as [`partition::update`](crate::partition::update) or a transformation,
/// keeps each shared node whose value it does not write. A node whose value it writes is replaced by a new node at all paths
/// in the updated value. Owners outside of the updated value keep the old node, as clones of an `Arc` do: update the whole
/// value that contains the tie, or use a [`Ref`](crate::Ref), which changes for all its owners.
///
/// # Examples
/// ```
/// use pytree_core::{graph, tree, Shared};
/// let weight = Shared::new(1.5_f32);
/// let tied = (weight.clone(), weight);
/// assert_eq!(tree::leaves::<f32, _>(&tied).len(), 2);
/// assert_eq!(graph::leaves::<f32, _>(&tied).len(), 1);
/// ```
// The `OnceLock` is empty only while the node is being built, so that a weak edge to the node can be created before the
// value of the node.
pub struct Shared<T>(pub(crate) Arc<OnceLock<T>>);

impl<T> Shared<T> {
    /// Creates a shared node from a value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(OnceLock::from(value)))
    }

    /// Creates a shared node whose value may hold weak edges to the node. `build` receives such an edge, which has no
    /// target until `build` returns.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Pytree, Shared, WeakShared};
    /// #[derive(Pytree)]
    /// struct Node { value: f32, parent: WeakShared<Node>, children: Vec<Shared<Node>> }
    ///
    /// let root = Shared::new_cyclic(|root: &WeakShared<Node>| Node {
    ///     value: 1.0,
    ///     parent: WeakShared::new(),
    ///     children: vec![Shared::new(Node { value: 2.0, parent: root.clone(), children: Vec::new() })],
    /// });
    /// let parent = root.children[0].parent.upgrade().expect("the root is alive");
    /// assert!(parent.same(&root));
    /// ```
    pub fn new_cyclic(build: impl FnOnce(&WeakShared<T>) -> T) -> Self {
        let node = Arc::new(OnceLock::new());
        let value = build(&WeakShared(Arc::downgrade(&node)));
        // No weak edge can be upgraded before the value is set, so no other code can set the value.
        if node.set(value).is_err() {
            bug("a shared node whose value is set once");
        }
        Self(node)
    }

    /// Returns a weak edge to the node.
    pub fn downgrade(&self) -> WeakShared<T> {
        WeakShared(Arc::downgrade(&self.0))
    }

    /// Returns whether two handles refer to the same node.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the identity of the node.
    pub fn identity(&self) -> NodeIdentity {
        NodeIdentity::of(&self.0)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match self.0.get() {
            Some(value) => value,
            None => panic!(
                "cannot read a shared node while it is being built; do not read it in an impl of `Pytree::unflatten`"
            ),
        }
    }
}
impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl<T: Eq> Eq for Shared<T> {}
impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (**self).hash(hasher);
    }
}
impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&**self).finish()
    }
}

impl<T: Send + Sync + 'static> SharedNode for Shared<T> {
    fn identity(&self) -> NodeIdentity {
        Self::identity(self)
    }
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.0) as Arc<dyn Any + Send + Sync>
    }
}

impl<T: Pytree + Send + Sync> Pytree for Shared<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.shared_node(self) == Visit::Descend
            && visitor.enter(&shape::SHARED, 1) == Visit::Descend
        {
            (**self).visit(visitor);
            visitor.exit();
        }
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.shared()
    }
}

/// A weak edge to a [`Shared`] node. The edge does not keep the node alive, so cycles are allowed: a node may contain a
/// weak edge to itself.
///
/// Graph functions, transformations and checkpoints preserve weak edges. Tree functions reject a weak edge that has a
/// target, and report the path of the edge. When a value is rebuilt, a weak edge to a node outside of the value loses
/// its target.
pub struct WeakShared<T>(pub(crate) sync::Weak<OnceLock<T>>);

impl<T> WeakShared<T> {
    /// Creates an edge without a target.
    pub fn new() -> Self {
        Self(sync::Weak::new())
    }

    /// Returns the target of this edge, if the target is alive and built.
    pub fn upgrade(&self) -> Option<Shared<T>> {
        self.0
            .upgrade()
            .filter(|node| node.get().is_some())
            .map(Shared)
    }
}

impl<T> Default for WeakShared<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T> Clone for WeakShared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
impl<T> fmt::Debug for WeakShared<T> {
    /// Writes `(...)`, as Python formats a cycle.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(...)")
    }
}

impl<T: Pytree + Send + Sync> Pytree for WeakShared<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.weak(self.upgrade().map(|node| node.identity()));
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.weak()
    }
}
