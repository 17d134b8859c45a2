//! The registries of modules, and changes to the fields of whole trees.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Registry;
use crate::error::TreeError;
use crate::kind::FieldKind;
use crate::shape::{NodeKind, NodeShape};
use crate::statics::{StaticBox, StaticValue};
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

/// The shape with each kind replaced by what `change` makes of it; itself if nothing changes.
pub(super) fn shape_with_kinds(
    shape: &'static NodeShape,
    change: impl Fn(FieldKind) -> FieldKind,
) -> Result<&'static NodeShape, TreeError> {
    if shape
        .fields
        .iter()
        .all(|field| field.kind == field.kind.map(&change))
    {
        return Ok(shape);
    }
    let fields: Vec<_> = shape
        .fields
        .iter()
        .map(|field| (field.name, field.kind.map(&change)))
        .collect();
    NodeShape::dynamic(shape.kind, shape.name, &fields, shape.statics)
}

/// The treedef with the kind of every field replaced by what `change` makes of it.
pub(super) fn with_kinds(
    treedef: &TreeDef,
    change: impl Fn(FieldKind) -> FieldKind,
) -> Result<TreeDef, TreeError> {
    let mut changed: HashMap<usize, &'static NodeShape> = HashMap::new();
    let mut nodes: Vec<Node> = treedef.0.nodes.clone();
    for node in nodes
        .iter_mut()
        .filter(|node| !node.shape.fields.is_empty())
    {
        let before = std::ptr::from_ref(node.shape).addr();
        node.shape = if let Some(shape) = changed.get(&before) {
            shape
        } else {
            let shape = shape_with_kinds(node.shape, &change)?;
            changed.insert(before, shape);
            shape
        };
    }
    Ok(TreeDef::from_parts(nodes, treedef.0.aux.clone()))
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
