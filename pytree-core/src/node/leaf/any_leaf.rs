//! A leaf of any type.

use std::any::Any;
use std::fmt;

use super::array_info::{ArrayInfo, MappedAxis};
use super::traits::{ArrayLeaf, Leaf};
use crate::node::compare::same;
use crate::node::shape::NodeShape;

/// A leaf of any type, for trees of mixed leaves.
pub struct AnyLeaf(Box<dyn Leaf>);

impl AnyLeaf {
    /// Wraps a leaf.
    pub fn new(leaf: impl Leaf) -> Self {
        Self(Box::new(leaf))
    }

    /// Wraps a boxed leaf.
    pub fn from_boxed(leaf: Box<dyn Leaf>) -> Self {
        Self(leaf)
    }

    /// Returns the leaf as a `T`, if its type is `T`.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl Clone for AnyLeaf {
    fn clone(&self) -> Self {
        Self(self.0.clone_boxed())
    }
}

impl fmt::Display for AnyLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}

impl fmt::Debug for AnyLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Compares leaves as [`diff`](crate::diff()) does. Arrays and numbers are compared by shape, dtype and elements, and
/// NaN equals NaN. Other leaves are compared by type and displayed text. A leaf whose elements cannot be read, as
/// inside a compiled function, is not equal to any leaf.
impl PartialEq for AnyLeaf {
    fn eq(&self, other: &Self) -> bool {
        same(&*self.0, &*other.0)
    }
}

impl Leaf for AnyLeaf {
    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self.0.as_any_mut()
    }
    fn clone_boxed(&self) -> Box<dyn Leaf> {
        self.0.clone_boxed()
    }
    fn move_into(self: Box<Self>, slot: &mut dyn Any) -> Result<(), Box<dyn Leaf>> {
        if let Some(slot) = slot.downcast_mut::<Option<Self>>() {
            *slot = Some(*self);
            return Ok(());
        }
        self.0.move_into(slot)
    }
    fn type_name(&self) -> &'static str {
        self.0.type_name()
    }
    fn leaf_shape(&self) -> &'static NodeShape {
        self.0.leaf_shape()
    }
    fn inner(&self) -> Option<&dyn Leaf> {
        self.0.inner()
    }
    fn inner_mut(&mut self) -> Option<&mut dyn Leaf> {
        self.0.inner_mut()
    }
    fn as_array(&self) -> Option<&dyn ArrayLeaf> {
        self.0.as_array()
    }
    fn array_info(&self) -> Option<ArrayInfo<&[usize]>> {
        self.0.array_info()
    }
    fn mapped_axes(&self) -> Vec<MappedAxis> {
        self.0.mapped_axes()
    }
    fn values(&self) -> Option<Vec<f64>> {
        self.0.values()
    }
    fn storage_identity(&self) -> Option<usize> {
        self.0.storage_identity()
    }
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}
