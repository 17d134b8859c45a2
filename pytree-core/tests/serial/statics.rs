//! Static values of the types that can be static: equal, shown, and read back.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use pytree_core::{Module, Static, StaticData, StaticValue, TreeDef, tree};

use crate::serial::{Plain, refused, through_bytes};

#[derive(Clone, Debug, PartialEq, Module)]
struct Holds<T: StaticValue> {
    #[param]
    weight: f32,
    #[r#static]
    value: T,
}

fn holds<T: StaticValue>(value: T) -> Holds<T> {
    Holds { weight: 1.0, value }
}

/// Each value is equal to itself alone, is displayed as given, and survives a round trip through bytes.
fn differ<T: StaticValue + PartialEq + std::fmt::Debug>(values: &[(T, &str)]) {
    for (position, (value, shown)) in values.iter().enumerate() {
        let structure = tree::structure(&holds(value.clone()));
        assert_eq!(
            structure.to_string(),
            format!("PyTreeDef(Holds {{ weight: *, value = {shown} }})")
        );
        for (other_position, (other, _)) in values.iter().enumerate() {
            let other_structure = tree::structure(&holds(other.clone()));
            assert_eq!(
                structure == other_structure,
                position == other_position,
                "{value:?} {other:?}"
            );
        }
        assert_eq!(through_bytes(&holds(value.clone())), holds(value.clone()));
        assert_eq!(
            T::from_static_data(&value.static_data()),
            Some(value.clone())
        );
        assert_eq!(
            T::from_static_data(&StaticData::Bool(true)),
            None,
            "{value:?}"
        );
    }
}

#[test]
fn characters_are_static() {
    differ(&[('a', "'a'"), ('b', "'b'"), ('\'', r"'\''")]);
}

#[test]
fn options_are_static() {
    differ(&[(None, "None"), (Some(1), "Some(1)"), (Some(2), "Some(2)")]);
}

#[test]
fn maps_are_static() {
    let map = |entries: &[(i32, i32)]| entries.iter().copied().collect::<BTreeMap<_, _>>();
    differ(&[
        (map(&[]), "{}"),
        (map(&[(1, 2)]), "{1: 2}"),
        (map(&[(1, 3)]), "{1: 3}"),
        (map(&[(2, 2)]), "{2: 2}"),
        (map(&[(1, 2), (3, 4)]), "{1: 2, 3: 4}"),
    ]);
}

#[test]
fn phantom_equals_itself() {
    differ(&[(PhantomData::<i32>, "PhantomData")]);
    assert_eq!(
        PhantomData::<i32>::from_static_data(&StaticData::Integer(1)),
        None
    );
}

#[test]
fn data_displays_like_its_value() {
    let integer = StaticData::Integer;
    let map = StaticData::Map(vec![(integer(1), integer(2)), (integer(3), integer(4))]);
    assert_eq!(map.to_string(), "{1: 2, 3: 4}");
    assert_eq!(StaticData::Map(vec![]).to_string(), "{}");
}

#[test]
fn floats_are_ordered_by_value() {
    let values = [
        f64::NEG_INFINITY,
        -2.0,
        -1.5,
        -1.0,
        -0.0,
        0.0,
        1.0,
        2.0,
        f64::INFINITY,
        f64::NAN,
    ];
    for pair in values.windows(2) {
        assert!(pair[0].static_data() < pair[1].static_data(), "{pair:?}");
        let back = f64::from_static_data(&pair[0].static_data());
        assert_eq!(back.map(f64::to_bits), Some(pair[0].to_bits()));
    }
}

#[derive(Clone, Debug, PartialEq, Module)]
struct Debugged {
    #[param]
    weight: f32,
    #[r#static]
    note: Plain,
}

#[test]
fn opaque_values_compare_by_equality() {
    let structure = |number| {
        tree::structure(&Debugged {
            weight: 1.0,
            note: Plain(number),
        })
    };
    assert_eq!(structure(1), structure(1));
    assert_ne!(structure(1), structure(2));
}

#[derive(Clone, Debug, PartialEq, Module)]
struct Pair<T: pytree_core::Leaf + Clone> {
    #[param]
    left: T,
    #[param]
    right: T,
}

#[derive(Clone, Debug, PartialEq, Module)]
struct Single {
    #[param]
    only: f32,
}

#[derive(Clone, Debug, PartialEq, Static)]
struct Never;

/// The shapes of two types that look alike are written once.
#[test]
fn shapes_with_equal_bytes_round_trip() {
    fn pair<T: pytree_core::Leaf + Clone>(leaf: T) -> Pair<T> {
        Pair {
            left: leaf.clone(),
            right: leaf,
        }
    }
    let single = || Single { only: 1.0 };
    let tree = (
        single(),
        holds(Never),
        holds(1_i32),
        pair(1.0_f32),
        (pair(1.0_f64), pair(2.0_f64), pair(1.0_f32), single()),
    );
    let bytes = tree::structure(&tree).to_bytes();
    let read = TreeDef::from_bytes(&bytes).unwrap();
    assert_eq!(read.to_string(), tree::structure(&tree).to_string());
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(
        bytes.windows(5).filter(|window| window == b"right").count(),
        1
    );
}

/// The bytes of an ordered dict of one leaf under a key, which are the bytes given.
fn key(data: &[u8]) -> Vec<u8> {
    [b"PYTD\x01\x05\x01\x01\x00", data, b"\x00"].concat()
}

#[test]
fn too_deeply_nested_static_data_is_rejected() {
    const LIMIT: usize = 64;
    // What opens a level, and what closes it; the innermost value is `()`.
    let levels: [(&[u8], &[u8]); 7] = [
        (b"\x06\x01", b""),
        (b"\x07\x01", b""),
        (b"\x07\x02\x00", b""),
        (b"\x09", b""),
        (b"\x0a\x01", b"\x00"),
        (b"\x0a\x01\x00", b""),
        (b"\x0b\x01R\x01\x01f", b""),
    ];
    for (open, close) in levels {
        let nested =
            |depth: usize| key(&[&open.repeat(depth), &b"\x00"[..], &close.repeat(depth)].concat());
        crate::serial::read_back(&TreeDef::from_bytes(&nested(LIMIT - 1)).unwrap());
        for depth in [LIMIT, 100_000] {
            // What is before the inner value in it is too deep already.
            let position = 9 + open.len() * LIMIT - usize::from(open.ends_with(b"\0"));
            assert_eq!(
                refused(&nested(depth)),
                (
                    position,
                    "data nested at most 64 levels deep".into(),
                    "a deeper level".into()
                ),
                "{open:?}"
            );
        }
    }
}
