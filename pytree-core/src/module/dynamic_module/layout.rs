//! The fields of a module while they are registered.
//!
//! A shape contains a copy of all names. So the shape of the module is created when it is first needed, and not each
//! time a field is registered.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::base::kind::FieldKind;
use crate::node::shape::{DynamicShape, NodeKind, Shape};

/// The name and the kind of a field that is not static. The kind is `None` if the fields inside of the value have kinds
/// of their own.
pub(super) type TreeField = (Arc<str>, Option<FieldKind>);

/// The position of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldPosition {
    /// The position among the fields that are trees.
    Tree(usize),
    /// The position among the static fields.
    Static(usize),
}

/// The maximum number of fields that are scanned to find a field. For a greater number, a lookup in a table is faster.
const FEW: usize = 16;

/// The names of a module and of its fields, with their kinds.
#[derive(Clone)]
pub(super) struct FieldLayout {
    kind: NodeKind,
    name: Arc<str>,
    fields: Vec<TreeField>,
    statics: Vec<Arc<str>>,
    /// The position of each field by name. Empty if there are at most [`FEW`] fields.
    table: HashMap<Arc<str>, FieldPosition>,
    /// The shape of the module's node, created when it is first needed.
    shape: OnceLock<Arc<DynamicShape>>,
}

impl FieldLayout {
    /// Creates the layout of a struct without fields.
    pub(super) fn empty(name: &str) -> Self {
        Self {
            kind: NodeKind::Struct,
            name: name.into(),
            fields: Vec::new(),
            statics: Vec::new(),
            table: HashMap::new(),
            shape: OnceLock::new(),
        }
    }

    /// Returns the layout of a module whose node has the given shape.
    pub(super) fn of(shape: Shape<'_>) -> Self {
        let made = match shape {
            Shape::Static(_) => OnceLock::new(),
            Shape::Dynamic(shape) => OnceLock::from(Arc::clone(shape)),
        };
        let fields = shape.fields();
        let mut layout = Self {
            kind: shape.kind(),
            name: shape.name().into(),
            fields: fields.map(|(name, kind)| (name.into(), kind)).collect(),
            statics: shape.static_names().map(Into::into).collect(),
            table: HashMap::new(),
            shape: made,
        };
        layout.fill_table();
        layout
    }

    fn fill_table(&mut self) {
        self.table.clear();
        if self.fields.len() + self.statics.len() <= FEW {
            return;
        }
        let trees = self.fields.iter().enumerate();
        let trees = trees.map(|(at, (name, _))| (Arc::clone(name), FieldPosition::Tree(at)));
        let statics = self.statics.iter().enumerate();
        let statics = statics.map(|(at, name)| (Arc::clone(name), FieldPosition::Static(at)));
        // Inserts in reverse order. If two fields have the same name, the table then finds the same field as a scan:
        // the first of the two, where trees come before static fields.
        self.table.extend(statics.rev().chain(trees.rev()));
    }

    /// Returns the position of the field that is named `name`.
    pub(super) fn place(&self, name: &str) -> Option<FieldPosition> {
        if !self.table.is_empty() {
            return self.table.get(name).copied();
        }
        let tree = self.fields.iter().position(|(found, _)| **found == *name);
        let in_statics = || self.statics.iter().position(|found| **found == *name);
        tree.map(FieldPosition::Tree)
            .or_else(|| in_statics().map(FieldPosition::Static))
    }

    /// Adds a field that is a tree.
    pub(super) fn push(&mut self, name: &str, kind: Option<FieldKind>) {
        let name: Arc<str> = name.into();
        self.added(&name, FieldPosition::Tree(self.fields.len()));
        self.fields.push((name, kind));
    }

    /// Adds a static field.
    pub(super) fn push_static(&mut self, name: &str) {
        let name: Arc<str> = name.into();
        self.added(&name, FieldPosition::Static(self.statics.len()));
        self.statics.push(name);
    }

    fn added(&mut self, name: &Arc<str>, place: FieldPosition) {
        self.shape = OnceLock::new();
        if self.table.is_empty() {
            self.fill_table();
        }
        if !self.table.is_empty() {
            self.table.insert(Arc::clone(name), place);
        }
    }

    /// Removes a field.
    pub(super) fn remove(&mut self, place: FieldPosition) {
        self.shape = OnceLock::new();
        match place {
            FieldPosition::Tree(position) => drop(self.fields.remove(position)),
            FieldPosition::Static(position) => drop(self.statics.remove(position)),
        }
        self.fill_table();
    }

    /// Changes the kind of a field that is a tree.
    pub(super) fn set_kind(&mut self, position: usize, kind: Option<FieldKind>) {
        self.shape = OnceLock::new();
        self.fields[position].1 = kind;
    }

    /// Returns the shape of the module's node.
    pub(super) fn shape(&self) -> &Arc<DynamicShape> {
        self.shape.get_or_init(|| {
            let fields = self.fields.iter().map(|(name, kind)| (&**name, *kind));
            let statics = self.statics.iter().map(|name| &**name);
            DynamicShape::of_distinct(self.kind, &self.name, fields, statics)
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
}

impl PartialEq for FieldLayout {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.name == other.name
            && self.fields == other.fields
            && self.statics == other.statics
    }
}
