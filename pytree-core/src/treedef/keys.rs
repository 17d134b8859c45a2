//! The keys of children, and the paths they make.

use super::Inner;
use crate::base::path::{Key, KeyPath};
use crate::node::shape::{NodeKind, NodeShape};
use crate::node::statics::{StaticBox, StaticData};

pub(super) fn child_key(inner: &Inner, node: usize, position: usize) -> Option<Key> {
    key_below(inner.nodes[node].shape, inner.aux_of(node), position)
}

/// The key of a child of a node with the given shape and static values, of which a map's first are its keys; none
/// below a transparent node.
pub(crate) fn key_below(shape: &NodeShape, aux: &[StaticBox], position: usize) -> Option<Key> {
    match shape.kind {
        NodeKind::Struct | NodeKind::TupleStruct | NodeKind::NamedTuple => Some(Key::Field(
            shape
                .fields
                .get(position)
                .map_or("?", |field| field.name)
                .into(),
        )),
        NodeKind::List | NodeKind::Tuple => i128::try_from(position).ok().map(Key::Index),
        NodeKind::Dict | NodeKind::OrderedDict => aux.get(position).map(key_of_static),
        _ => None,
    }
}

fn key_of_static(value: &StaticBox) -> Key {
    match value.data() {
        StaticData::Integer(integer) => Key::Index(integer),
        StaticData::Text(text) => Key::Text(text),
        _ => Key::of_display(&format!("{value:?}")),
    }
}

pub(crate) fn path_of(inner: &Inner, target: usize) -> KeyPath {
    let mut path = KeyPath::root();
    let mut node = 0;
    while node < target {
        let parent = node;
        node += 1;
        for position in 0..inner.nodes[parent].arity as usize {
            let end = node + inner.nodes[node].size as usize;
            if target < end {
                path.extend_by(child_key(inner, parent, position));
                break;
            }
            node = end;
        }
    }
    path
}
