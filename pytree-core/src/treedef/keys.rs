//! The keys of children, and the paths of nodes.

use crate::base::path::{KeyPath, PathKey};
use crate::node::shape::{NodeKind, Shape};
use crate::node::statics::{StaticBox, StaticData};

/// Returns the key of the child at `position` of a node with the given shape and static values. Returns `None` if the
/// node is displayed as its child, because both then have the same path. The static values of a map begin with its
/// keys.
pub(crate) fn key_below(shape: Shape<'_>, aux: &[StaticBox], position: usize) -> Option<PathKey> {
    match shape.kind() {
        NodeKind::Struct | NodeKind::TupleStruct | NodeKind::NamedTuple => {
            shape.field_key(position).or_else(|| index(position))
        }
        NodeKind::List | NodeKind::Tuple => index(position),
        NodeKind::Dict | NodeKind::OrderedDict => aux.get(position).map(key_of_static),
        _ => None,
    }
}

fn index(position: usize) -> Option<PathKey> {
    i128::try_from(position).ok().map(PathKey::Index)
}

fn key_of_static(value: &StaticBox) -> PathKey {
    match value.data() {
        StaticData::Integer(integer) => PathKey::Index(integer),
        StaticData::Text(text) => PathKey::Text(text),
        _ => PathKey::of_display(&format!("{value:?}")),
    }
}

impl KeyPath {
    pub(super) fn extend_by(&mut self, key: Option<PathKey>) {
        if let Some(key) = key {
            self.push(key);
        }
    }
}
