//! Shared nodes: one value at several places of a tree.
//!
//! A [`Shared`] is immutable and reference counted; its identity is its address. Tree operations visit it
//! at each place, as JAX does. Graph operations, which every transformation and checkpoint uses, visit
//! it once and rebuild the sharing.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::TreeError;
use crate::pytree::{Pytree, SharedVisit, Visitor};
use crate::shape;
use crate::unflatten::Unflattener;

/// What tells one shared node from another: its address, while it is borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(usize);

/// Numbers identities in the order they are met.
#[derive(Debug, Default)]
pub(crate) struct IdentityMap(
    SmallVec<[Identity; 4]>,
    std::collections::HashMap<Identity, usize>,
);

impl IdentityMap {
    /// Adds an identity, or tells the number it has.
    pub(crate) fn insert(&mut self, identity: Identity) -> Result<(), usize> {
        // A few shared nodes are the rule: a scan beats a table there.
        if self.1.is_empty() {
            if let Some(number) = self.0.iter().position(|&seen| seen == identity) {
                return Err(number);
            }
            self.0.push(identity);
            if self.0.len() > 16 {
                self.1 = self
                    .0
                    .iter()
                    .enumerate()
                    .map(|(number, &identity)| (identity, number))
                    .collect();
            }
            return Ok(());
        }
        let next = self.1.len();
        match self.1.entry(identity) {
            std::collections::hash_map::Entry::Occupied(entry) => Err(*entry.get()),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(next);
                Ok(())
            }
        }
    }
}

/// A node that stands at several places of a tree, for instance tied weights.
///
/// Cloning shares it; `&T` is read through it. Its gradient is the sum over its places, and it is
/// counted, optimised and saved once.
///
/// # Examples
/// ```
/// use pytree_core::{graph, tree, Shared};
/// let weight = Shared::new(1.5_f32);
/// let tied = (weight.clone(), weight);
/// assert_eq!(tree::leaves::<f32, _>(&tied).len(), 2);
/// assert_eq!(graph::leaves::<f32, _>(&tied).len(), 1);
/// ```
pub struct Shared<T>(pub(crate) Arc<T>);

impl<T> Shared<T> {
    /// Makes a value shareable.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Whether two handles lead to the same node.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The node's identity.
    pub fn identity(&self) -> Identity {
        Identity(Arc::as_ptr(&self.0).cast::<()>() as usize)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.0).finish()
    }
}

impl<T: Pytree + Send + Sync> Pytree for Shared<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.shared(self.identity()) == SharedVisit::Descend {
            visitor.enter(&shape::SHARED, 1);
            self.0.visit(visitor);
            visitor.exit();
        }
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.shared(|source| T::unflatten(source).map(Self::new))
    }
}
