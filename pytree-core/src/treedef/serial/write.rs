//! Writing a treedef in the format that the parent module describes.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;

use super::format::{ABSENT, BUILTIN, KINDS, MAGIC, NEW_SHAPE, REMEMBERED, VERSION, WITH_AXES};
use crate::base::kind::{CollectionId, FieldKind};
use crate::node::shape::{NodeKind, NodeShape, Shape};
use crate::node::statics::{StaticBox, StaticData};
use crate::treedef::structure::TreeDef;

/// Writes treedefs.
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// Whether to omit the data that equality ignores.
    canonical: bool,
    /// The codes of shapes, by memory address. Unlike a lookup in `shapes`, a lookup in this map does not need the
    /// bytes of the shape.
    addresses: HashMap<usize, usize>,
    /// For the bytes of each written shape, the index of the shape among the written shapes.
    shapes: HashMap<Vec<u8>, usize>,
    /// For the bytes of each written static value, the index of the value among the written static values.
    statics: HashMap<Vec<u8>, usize>,
}

impl Writer {
    pub(super) fn new(canonical: bool) -> Self {
        Self {
            bytes: Vec::new(),
            canonical,
            addresses: HashMap::new(),
            shapes: HashMap::new(),
            statics: HashMap::new(),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn header(&mut self) {
        self.bytes.extend_from_slice(MAGIC);
        self.bytes.push(VERSION);
    }

    pub(super) fn nodes(&mut self, treedef: &TreeDef) {
        for node in treedef.nodes() {
            if node.splits() > 0 {
                count(&mut self.bytes, NEW_SHAPE);
                self.bytes.push(ABSENT);
                count(&mut self.bytes, node.splits() as usize);
                continue;
            }
            self.shape(node.shape());
            if node.is_place() {
                continue;
            }
            let mut statics = node.aux();
            if self.canonical && node.kind() == NodeKind::Dict {
                statics = statics.get(..node.num_children()).unwrap_or(statics);
            }
            count(&mut self.bytes, node.num_children());
            if node.kind() == NodeKind::Alias {
                // The index of the target is written as the only static value of the alias.
                count(&mut self.bytes, 1);
                let number = node.target();
                self.static_value(&number.map_or_else(|| StaticBox::new(()), StaticBox::new));
                continue;
            }
            count(&mut self.bytes, statics.len());
            statics.iter().for_each(|value| self.static_value(value));
        }
    }

    /// Writes the code of a shape, and the shape itself if it is new.
    fn shape(&mut self, shape: Shape<'_>) {
        let address = match shape {
            Shape::Static(shape) => std::ptr::from_ref(shape).addr(),
            Shape::Dynamic(shape) => Arc::as_ptr(shape).addr(),
        };
        if let Some(&code) = self.addresses.get(&address) {
            return count(&mut self.bytes, code);
        }
        let builtin = BUILTIN
            .iter()
            .position(|builtin| self.is_builtin(shape, builtin));
        let code = builtin.unwrap_or_else(|| {
            let mut written = Vec::new();
            write_shape(&mut written, shape, !self.canonical);
            let next = self.shapes.len();
            let number = *self.shapes.entry(written.clone()).or_insert(next);
            if number == next {
                count(&mut self.bytes, NEW_SHAPE);
                self.bytes.extend_from_slice(&written);
            } else {
                count(&mut self.bytes, NEW_SHAPE + 1 + number);
            }
            NEW_SHAPE + 1 + number
        });
        if builtin.is_some() {
            count(&mut self.bytes, code);
        }
        self.addresses.insert(address, code);
    }

    fn is_builtin(&self, shape: Shape<'_>, builtin: &NodeShape) -> bool {
        let is_of_no_type = || match shape {
            Shape::Static(shape) => (shape.identity)() == TypeId::of::<()>(),
            Shape::Dynamic(_) => false,
        };
        shape.kind() == builtin.kind
            && (matches!(shape.kind(), NodeKind::Leaf | NodeKind::Absent)
                || (shape.name() == builtin.name
                    && shape.num_fields() == 0
                    && shape.num_statics() == 0
                    && (self.canonical || is_of_no_type())))
    }

    fn static_value(&mut self, value: &StaticBox) {
        let mut written = Vec::new();
        write_data(&mut written, &value.data());
        if let Some(&number) = self.statics.get(&written) {
            return count(&mut self.bytes, 1 + number);
        }
        count(&mut self.bytes, 0);
        self.bytes.extend_from_slice(&written);
        if written.len() <= REMEMBERED {
            self.statics.insert(written, self.statics.len());
        }
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u128) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

fn count(bytes: &mut Vec<u8>, value: usize) {
    varint(bytes, value as u128);
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    count(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

fn write_shape(bytes: &mut Vec<u8>, shape: Shape<'_>, with_axes: bool) {
    let kind = KINDS.iter().position(|&kind| kind == shape.kind());
    count(bytes, kind.unwrap_or(KINDS.len()));
    text(bytes, shape.name());
    count(bytes, shape.num_fields());
    for (position, (name, kind)) in shape.fields().enumerate() {
        let axes = shape.field_axes(position).filter(|_| with_axes);
        text(bytes, name);
        let marked = |code: u8| code | if axes.is_some() { WITH_AXES } else { 0 };
        match kind {
            None => bytes.push(marked(0)),
            Some(FieldKind::Param) => bytes.push(marked(1)),
            Some(FieldKind::State(collection)) if collection.parent().is_none() => {
                bytes.push(marked(2));
                text(bytes, collection.name());
            }
            Some(FieldKind::State(collection)) => {
                bytes.push(marked(6));
                collections(bytes, collection);
            }
            Some(FieldKind::ParamIn(collection)) => {
                bytes.push(marked(5));
                collections(bytes, collection);
            }
            Some(FieldKind::Static) => bytes.push(marked(3)),
            Some(FieldKind::Module) => bytes.push(marked(4)),
        }
        if let Some(axes) = axes {
            text(bytes, axes);
        }
    }
    count(bytes, shape.num_statics());
    shape.static_names().for_each(|name| text(bytes, name));
}

/// Writes the names of the ancestors of a collection, the outermost first, and then the name of the collection.
fn collections(bytes: &mut Vec<u8>, collection: CollectionId) {
    let names: Vec<CollectionId> = collection.with_ancestors().collect();
    count(bytes, names.len());
    names.iter().rev().for_each(|name| text(bytes, name.name()));
}

fn write_data(bytes: &mut Vec<u8>, data: &StaticData) {
    let items = |bytes: &mut Vec<u8>, tag: u8, items: &[StaticData]| {
        bytes.push(tag);
        count(bytes, items.len());
        items.iter().for_each(|item| write_data(bytes, item));
    };
    match data {
        StaticData::Unit => bytes.push(0),
        StaticData::Bool(value) => bytes.push(1 + u8::from(*value)),
        StaticData::Integer(value) => {
            bytes.push(3);
            varint(bytes, ((value << 1) ^ (value >> 127)).cast_unsigned());
        }
        StaticData::Float(value) => {
            bytes.push(4);
            bytes.extend_from_slice(&f64::from(*value).to_bits().to_le_bytes());
        }
        StaticData::Text(value) => {
            bytes.push(5);
            text(bytes, value);
        }
        StaticData::Tuple(values) => items(bytes, 6, values),
        StaticData::Sequence(values) => items(bytes, 7, values),
        StaticData::Optional(None) => bytes.push(8),
        StaticData::Optional(Some(value)) => {
            bytes.push(9);
            write_data(bytes, value);
        }
        StaticData::Map(entries) => {
            bytes.push(10);
            count(bytes, entries.len());
            for (key, value) in entries {
                write_data(bytes, key);
                write_data(bytes, value);
            }
        }
        StaticData::Record { name, fields } => {
            bytes.push(11);
            text(bytes, name);
            count(bytes, fields.len());
            for (field, value) in fields {
                text(bytes, field);
                write_data(bytes, value);
            }
        }
        StaticData::Opaque {
            type_name,
            text: shown,
        } => {
            bytes.push(12);
            text(bytes, type_name);
            text(bytes, shown);
        }
    }
}
