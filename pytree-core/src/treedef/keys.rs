//! The keys of children, and the paths they make.

use super::Inner;
use crate::path::{Key, KeyPath};
use crate::shape::NodeKind;
use crate::statics::StaticBox;

pub(super) fn child_key(inner: &Inner, node: usize, position: usize) -> Option<Key> {
    let shape = inner.nodes[node].shape;
    match shape.kind {
        NodeKind::Struct | NodeKind::TupleStruct => Some(Key::Field(
            shape
                .fields
                .get(position)
                .map_or("?", |field| field.name)
                .into(),
        )),
        NodeKind::List | NodeKind::Tuple => i128::try_from(position).ok().map(Key::Index),
        NodeKind::Dict | NodeKind::OrderedDict => {
            inner.aux_of(node).get(position).map(key_of_static)
        }
        _ => None,
    }
}

fn key_of_static(value: &StaticBox) -> Key {
    macro_rules! integers {
        ($($integer:ty),*) => {$(
            if let Some(&integer) = value.downcast_ref::<$integer>() {
                #[allow(irrefutable_let_patterns, reason = "u128 alone does not always fit")]
                if let Ok(integer) = i128::try_from(integer) {
                    return Key::Index(integer);
                }
            }
        )*};
    }
    if let Some(text) = value.downcast_ref::<String>() {
        return Key::Text(text.clone());
    }
    if let Some(text) = value.downcast_ref::<&'static str>() {
        return Key::Text((*text).to_owned());
    }
    integers!(
        usize, i32, i64, u32, u64, isize, u8, i8, u16, i16, i128, u128
    );
    if let Some(&character) = value.downcast_ref::<char>() {
        return Key::Text(character.to_string());
    }
    Key::of_display(&format!("{value:?}"))
}

pub(super) fn path_of(inner: &Inner, target: usize) -> KeyPath {
    let mut path = KeyPath::root();
    let mut node = 0;
    while node != target {
        let mut child = node + 1;
        for position in 0..inner.nodes[node].arity as usize {
            let end = child + inner.nodes[child].size as usize;
            if target < end {
                path.extend_by(child_key(inner, node, position));
                break;
            }
            child = end;
        }
        if child <= node || child > target {
            break;
        }
        node = child;
    }
    path
}
