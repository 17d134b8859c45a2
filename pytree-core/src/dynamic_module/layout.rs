//! The fields of a module as it is put together.
//!
//! A shape made at run time is kept for the life of the process, so that it is made when a tree is asked for and not
//! for each field that is registered on the way.

use std::sync::{Arc, OnceLock};

use crate::kind::FieldKind;
use crate::shape::{NodeKind, NodeShape};

/// A field that is a tree: its name and its kind, which a subtree has not.
pub(super) type TreeField = (Arc<str>, Option<FieldKind>);

/// The name of a module and of its fields, with their kinds.
#[derive(Clone)]
pub(super) struct Layout {
    kind: NodeKind,
    name: Arc<str>,
    fields: Vec<TreeField>,
    statics: Vec<Arc<str>>,
    /// Made when it is first asked for.
    shape: OnceLock<&'static NodeShape>,
}

impl Layout {
    /// The layout of a struct without fields.
    pub(super) fn empty(name: &str) -> Self {
        Self {
            kind: NodeKind::Struct,
            name: name.into(),
            fields: Vec::new(),
            statics: Vec::new(),
            shape: OnceLock::new(),
        }
    }

    /// The layout of a node.
    pub(super) fn of(shape: &'static NodeShape) -> Self {
        let made = OnceLock::new();
        if shape.is_dynamic() {
            let _ = made.set(shape);
        }
        Self {
            kind: shape.kind,
            name: shape.name.into(),
            fields: shape
                .fields
                .iter()
                .map(|field| (field.name.into(), field.kind))
                .collect(),
            statics: shape.statics.iter().map(|&name| name.into()).collect(),
            shape: made,
        }
    }

    /// The shape of the module's node.
    pub(super) fn shape(&self) -> &'static NodeShape {
        self.shape.get_or_init(|| {
            let fields: Vec<_> = self
                .fields
                .iter()
                .map(|(name, kind)| (&**name, *kind))
                .collect();
            let statics: Vec<&str> = self.statics.iter().map(|name| &**name).collect();
            NodeShape::interned(self.kind, &self.name, &fields, &statics)
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn fields(&self) -> &[TreeField] {
        &self.fields
    }

    pub(super) fn statics(&self) -> &[Arc<str>] {
        &self.statics
    }

    /// The fields that are trees, to be changed.
    pub(super) fn fields_mut(&mut self) -> &mut Vec<TreeField> {
        self.shape = OnceLock::new();
        &mut self.fields
    }

    /// The static fields, to be changed.
    pub(super) fn statics_mut(&mut self) -> &mut Vec<Arc<str>> {
        self.shape = OnceLock::new();
        &mut self.statics
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.name == other.name
            && self.fields == other.fields
            && self.statics == other.statics
    }
}
