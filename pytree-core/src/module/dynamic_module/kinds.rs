//! The registries of modules, and changes to the fields of whole trees.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Registry;
use crate::base::kind::{FieldKind, LeafKind};
use crate::node::shape::{FROZEN, NodeKind, NodeShape};
use crate::node::statics::{StaticBox, StaticValue};
use crate::treedef::{Node, TreeDef};

/// The registry of a shape made at run time: its fields that have a kind, then its static ones. It is kept as
/// long as the shape is.
pub(super) fn registry_of(shape: &'static NodeShape) -> Registry {
    static REGISTRIES: Mutex<Option<HashMap<usize, Registry>>> = Mutex::new(None);
    let mut registries = REGISTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    registries
        .get_or_insert_default()
        .entry(std::ptr::from_ref(shape).addr())
        .or_insert_with(|| {
            let fields = shape
                .fields
                .iter()
                .filter_map(|field| Some((field.name, field.kind?)));
            let statics = shape.statics.iter().map(|&name| (name, FieldKind::Static));
            fields.chain(statics).collect::<Vec<_>>().leak()
        })
}

/// A change of the kinds of all fields.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// Parameters become states of the collection of what is frozen.
    Freeze,
    /// And back. Where the leaves have kinds of their own, as inside of a [`Freeze`](crate::Freeze), the field is no
    /// parameter that was frozen, and stays.
    Thaw,
}

impl Change {
    /// The kind that a field gets; `has_own` tells whether the leaves below have kinds of their own.
    pub(super) fn of(
        self,
        kind: Option<FieldKind>,
        has_own: impl FnOnce() -> bool,
    ) -> Option<FieldKind> {
        match (self, kind) {
            (Self::Freeze, Some(FieldKind::Param)) => Some(FROZEN),
            (Self::Thaw, Some(kind)) if kind == FROZEN && !has_own() => Some(FieldKind::Param),
            _ => kind,
        }
    }
}

/// Whether a field among these nodes decides the kind of leaves.
pub(super) fn has_kinds(nodes: &[Node]) -> bool {
    let mut fields = nodes.iter().flat_map(|node| node.shape.fields);
    fields.any(|field| field.kind.and_then(LeafKind::of_field).is_some())
}

/// The treedef with the kinds of all fields changed.
pub(super) fn with_kinds(treedef: &TreeDef, change: Change) -> TreeDef {
    type Made = (usize, Vec<Option<FieldKind>>);
    let mut made: HashMap<Made, &'static NodeShape> = HashMap::new();
    let before = &treedef.0.nodes;
    let mut nodes: Vec<Node> = before.clone();
    for (at, node) in nodes.iter_mut().enumerate() {
        let fields = node.shape.fields;
        let has_own = |position: usize| {
            let child = treedef.child_positions(at).get(position).copied();
            let below = child.map(|child| &before[child..child + before[child].size as usize]);
            below.is_some_and(has_kinds)
        };
        let kinds = fields.iter().enumerate();
        let kinds: Vec<_> = kinds
            .map(|(position, field)| change.of(field.kind, || has_own(position)))
            .collect();
        if fields.iter().map(|field| &field.kind).eq(&kinds) {
            continue;
        }
        let shape = node.shape;
        let address = std::ptr::from_ref(shape).addr();
        node.shape = made
            .entry((address, kinds))
            .or_insert_with_key(|(_, kinds)| {
                let names = fields.iter().map(|field| field.name);
                let fields: Vec<_> = names.zip(kinds.iter().copied()).collect();
                NodeShape::interned(shape.kind, shape.name, &fields, shape.statics)
            });
    }
    TreeDef::from_parts(nodes, treedef.0.aux.clone())
}

/// Gives `value` to every static field of a struct that has the name and holds a `T`; tells how many there are.
pub(super) fn with_static<T: StaticValue>(
    treedef: &TreeDef,
    name: &str,
    value: &T,
) -> (TreeDef, usize) {
    let mut aux = treedef.0.aux.clone();
    let mut count = 0;
    for node in &treedef.0.nodes {
        if !matches!(node.shape.kind, NodeKind::Struct | NodeKind::TupleStruct) {
            continue;
        }
        let named = node.shape.statics.iter().position(|&found| found == name);
        let place = named.and_then(|position| aux.get_mut(node.aux as usize + position));
        if let Some(place) = place.filter(|place| place.to_value::<T>().is_some()) {
            *place = StaticBox::new(value.clone());
            count += 1;
        }
    }
    (TreeDef::from_parts(treedef.0.nodes.clone(), aux), count)
}
