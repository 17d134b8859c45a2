//! Shapes made at run time: equal shapes are stored once and never freed.
//!
//! A program may make any number of them. [`read_limit`] bounds those that are read from bytes.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{Dynamic, Field, NodeKind, NodeShape};
use crate::base::error::TreeError;
use crate::base::kind::FieldKind;
use crate::base::read_limit;

/// What tells one shape made at run time from another.
type DynamicKey = (
    NodeKind,
    String,
    Vec<(String, Option<FieldKind>)>,
    Vec<String>,
);

/// A map that grows in small steps: a hash table reallocates all entries at once, however few bytes are read.
static SHAPES: Mutex<BTreeMap<DynamicKey, &'static NodeShape>> = Mutex::new(BTreeMap::new());

/// About how many bytes a shape takes, besides its names.
const SHAPE_SIZE: usize = 128;
/// And each of its fields.
const FIELD_SIZE: usize = 32;

fn leak(text: &str) -> &'static str {
    Box::leak(text.into())
}

fn failed(reason: String) -> TreeError {
    TreeError::Build {
        node: "struct",
        reason,
    }
}

impl NodeShape {
    /// The shape of a struct whose fields are known at run time only: a named tuple, a module built from data. Equal
    /// calls give the same shape, which is kept for the life of the process.
    ///
    /// # Errors
    /// [`TreeError::Build`] if two fields have one name.
    pub fn dynamic(
        kind: NodeKind,
        name: &str,
        fields: &[(&str, Option<FieldKind>)],
        statics: &[&str],
    ) -> Result<&'static Self, TreeError> {
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        names.extend(statics);
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find_map(|pair| match pair {
            [left, right] if left == right => Some(*left),
            _ => None,
        }) {
            return Err(failed(format!(
                "`{name}` has two fields of the name `{twice}`; rename one"
            )));
        }
        Ok(Self::interned(kind, name, fields, statics))
    }

    /// As [`dynamic`](Self::dynamic), of fields whose names differ.
    pub(crate) fn interned(
        kind: NodeKind,
        name: &str,
        fields: &[(&str, Option<FieldKind>)],
        statics: &[&str],
    ) -> &'static Self {
        let key = key(kind, name, fields, statics);
        let mut known = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(key).or_insert_with_key(make)
    }

    /// As [`interned`](Self::interned), of a shape that is read from bytes. A shape that the process does not know yet
    /// counts towards the limit.
    ///
    /// # Errors
    /// [`TreeError::Build`] if too much was read already.
    pub(crate) fn read(
        kind: NodeKind,
        name: &str,
        fields: &[(&str, Option<FieldKind>)],
        statics: &[&str],
    ) -> Result<&'static Self, TreeError> {
        let key = key(kind, name, fields, statics);
        let mut known = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key) {
            return Ok(found);
        }
        let names = fields.iter().map(|(name, _)| name).chain(statics);
        let size = names.fold(SHAPE_SIZE + name.len(), |size, name| {
            size + FIELD_SIZE + name.len()
        });
        read_limit::reserve(size)?;
        Ok(known.entry(key).or_insert_with_key(make))
    }
}

fn key(
    kind: NodeKind,
    name: &str,
    fields: &[(&str, Option<FieldKind>)],
    statics: &[&str],
) -> DynamicKey {
    let fields = fields.iter();
    (
        kind,
        name.to_owned(),
        fields
            .map(|(name, kind)| ((*name).to_owned(), *kind))
            .collect(),
        statics.iter().map(|&name| name.to_owned()).collect(),
    )
}

fn make((kind, name, fields, statics): &DynamicKey) -> &'static NodeShape {
    let fields: Vec<Field> = fields
        .iter()
        .map(|(name, kind)| Field {
            name: leak(name),
            kind: *kind,
        })
        .collect();
    let statics: Vec<&'static str> = statics.iter().map(|name| leak(name)).collect();
    Box::leak(Box::new(NodeShape {
        kind: *kind,
        name: leak(name),
        fields: fields.leak(),
        statics: statics.leak(),
        identity: TypeId::of::<Dynamic>,
        type_name: std::any::type_name::<Dynamic>,
    }))
}
