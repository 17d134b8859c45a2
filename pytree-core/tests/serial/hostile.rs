//! Bytes that are no treedef are an error, whatever they are.

use proptest::prelude::*;
use pytree_core::{Filter, Tree, TreeDef, TreeError, partition, tree};

use crate::serial::{Choice, linear, refused};

/// The error that a node gives after the header, its position counted from the node.
fn node(bytes: &[u8]) -> (usize, String, String) {
    let (position, expected, found) = refused(&[b"PYTD\x01", bytes].concat());
    (position - 5, expected, found)
}

fn says(bytes: &[u8], position: usize, expected: &str, found: &str) {
    assert_eq!(
        node(bytes),
        (position, expected.to_owned(), found.to_owned()),
        "{bytes:?}"
    );
}

#[test]
fn error_says_where_what_and_fix() {
    assert_eq!(
        TreeDef::from_bytes(b"PYTD\x04\x00")
            .unwrap_err()
            .to_string(),
        "cannot read a treedef: expected a version from 1 to 3 at byte 4, found version 4; \
         pass all bytes that `TreeDef::to_bytes` returned, unchanged"
    );
}

#[test]
fn header_is_checked() {
    let magic = "`PYTD`, the first four bytes of each treedef";
    assert_eq!(refused(b""), (0, magic.into(), "the end".into()));
    assert_eq!(refused(b"PYT"), (3, magic.into(), "the end".into()));
    assert_eq!(
        refused(b"PYTH\x01\x00"),
        (0, magic.into(), "[80, 89, 84, 72]".into())
    );
    assert_eq!(
        refused(b"PYTD"),
        (4, "the version".into(), "the end".into())
    );
    assert_eq!(
        TreeDef::from_bytes(b"PYTD\x01\x00").unwrap(),
        TreeDef::leaf()
    );
    says(b"\x00\x00\x00", 1, "the end", "2 more bytes");
    says(b"", 0, "a node", "the end");
}

#[test]
fn collections_with_parents_are_checked() {
    // A struct `S` of one field `x`, whose kind follows.
    let shape = |version: u8, kind: &[u8]| {
        [
            b"PYTD",
            &[version, 11, 11][..],
            b"\x01S\x01\x01x",
            kind,
            b"\x00\x01\x00\x00",
        ]
        .concat()
    };
    let refused = |kind: &[u8]| {
        let (position, expected, found) = refused(&shape(2, kind));
        (position - 12, expected, found)
    };
    let long = |tag: u8, lengths: &[usize]| {
        let names = lengths
            .iter()
            .map(|&length| [vec![length as u8], vec![b'n'; length]].concat());
        [
            vec![tag, lengths.len() as u8],
            names.collect::<Vec<_>>().concat(),
        ]
        .concat()
    };
    for kind in [
        &b"\x05\x01\x01A"[..],
        b"\x05\x03\x01A\x00\x01B",
        b"\x06\x02\x01A\x01B",
        &long(5, &[46]),
        &long(6, &[0; 47]),
        &long(6, &[22, 23]),
    ] {
        crate::serial::read_back(&TreeDef::from_bytes(&shape(2, kind)).unwrap());
        // An older version has no such kinds.
        let code = format!("the code {}", kind[0]);
        assert_eq!(
            crate::serial::refused(&shape(1, kind)),
            (12, "the kind of a field".into(), code)
        );
    }
    let least = |least: usize, found: &str| {
        (
            1,
            format!("at least {least} names of collections"),
            found.into(),
        )
    };
    assert_eq!(refused(b"\x05\x00"), least(1, "0"));
    assert_eq!(refused(b"\x06\x00"), least(2, "0"));
    // A collection without a parent has another code.
    assert_eq!(refused(b"\x06\x01\x01A"), least(2, "1"));
    let together = "names of a collection and its ancestors, of at most 46 bytes together";
    assert_eq!(
        refused(&long(6, &[22, 24])),
        (25, together.into(), "24 bytes below 22".into())
    );
    assert_eq!(
        refused(&long(5, &[0; 48])),
        (49, together.into(), "0 bytes below 46".into())
    );
    let (position, expected, found) = refused(b"\x05\xff\xff\xff\xff\x0f\x01A");
    assert_eq!(position, 1);
    assert!(
        expected.starts_with("the number of a collection and its ancestors, which is at most"),
        "{expected}"
    );
    assert_eq!(found, "4294967295");
    assert_eq!(
        refused(b"\x07"),
        (0, "the kind of a field".into(), "the code 7".into())
    );
}

#[test]
fn counts_must_match_shape() {
    let counts = |children, statics, name: &str| {
        format!("{children} children and {statics} static values in `{name}`")
    };
    says(
        b"\x02\x01\x01\x00\x00\x00",
        0,
        &counts(1, 0, "list"),
        "1 children and 1 static values",
    );
    says(
        b"\x03\x01\x01\x00\x00\x00",
        0,
        &counts(1, 0, "tuple"),
        "1 children and 1 static values",
    );
    says(
        b"\x04\x01\x01\x00\x00\x00",
        0,
        &counts(1, 2, "dict"),
        "1 children and 1 static values",
    );
    says(
        b"\x05\x01\x02\x00\x00\x00",
        0,
        &counts(1, 1, "OrderedDict"),
        "1 children and 2 static values",
    );
    says(
        b"\x06\x01\x00\x00",
        0,
        &counts(0, 0, "None"),
        "1 children and 0 static values",
    );
    says(
        b"\x07\x00\x00",
        0,
        &counts(1, 0, "Some"),
        "0 children and 0 static values",
    );
    says(
        b"\x08\x01\x00\x00",
        0,
        &counts(1, 1, "object"),
        "1 children and 0 static values",
    );
    says(
        b"\x09\x02\x00\x00\x00",
        0,
        &counts(1, 0, "shared"),
        "2 children and 0 static values",
    );
    says(
        b"\x0a\x00\x00",
        0,
        &counts(0, 1, "alias"),
        "0 children and 0 static values",
    );
    for kind in [b"\x0b", b"\x0c", b"\x0d"] {
        let shape = [b"\x0b", &kind[..], b"\x01S\x01\x01x\x00\x01\x01s"].concat();
        says(
            &[&shape, &b"\x02\x01\x00\x00\x00\x00"[..]].concat(),
            0,
            &counts(1, 1, "S"),
            "2 children and 1 static values",
        );
        says(
            &[&shape, &b"\x01\x00\x00\x00"[..]].concat(),
            0,
            &counts(1, 1, "S"),
            "1 children and 0 static values",
        );
        let right = [b"PYTD\x01", &shape[..], b"\x01\x01\x00\x00\x00"].concat();
        crate::serial::read_back(&TreeDef::from_bytes(&right).unwrap());
    }
}

#[test]
fn counts_are_limited_by_remaining_bytes() {
    says(
        b"\x02\x09\x00\x00",
        1,
        "the number of children, which is at most 2, the number of remaining bytes",
        "9",
    );
    let huge = [b"\x02", &[0xff; 18][..], b"\x03"].concat();
    says(
        &huge,
        1,
        "the number of children, which is at most 0, the number of remaining bytes",
        &u128::MAX.to_string(),
    );
    says(
        b"\x04\x00\x05\x00",
        2,
        "the number of static values, which is at most 1, the number of remaining bytes",
        "5",
    );
}

#[test]
fn numbers_must_be_shortest_form() {
    let expected = "a node as a number of at most 128 bits in its shortest form";
    says(b"\x80\x00", 0, expected, "another form");
    says(
        &[&[0xff; 18][..], b"\x04"].concat(),
        0,
        expected,
        "another form",
    );
    says(
        &[&[0x80; 19][..], b"\x01"].concat(),
        0,
        expected,
        "another form",
    );
}

#[test]
fn shapes_are_checked() {
    says(
        b"\x0c",
        0,
        "a node with one of the 0 shapes read before",
        "the code 12",
    );
    says(
        b"\x0b\x02\x01l\x00\x00\x01\x00\x0d",
        8,
        "a node with one of the 1 shapes read before",
        "the code 13",
    );
    for code in [0, 1, 9, 10, 16, 255] {
        says(
            &[11, code, 0, 0, 0, 0, 0],
            1,
            "the family of a shape",
            &format!("the code {code}"),
        );
    }
    says(
        b"\x0b\x0b\x01S\x01\x01x\x05\x00\x01\x00\x00",
        7,
        "the kind of a field",
        "the code 5",
    );
    let names = "different names for the fields of `S`";
    says(
        b"\x0b\x0b\x01S\x02\x01x\x00\x01x\x00\x00",
        1,
        names,
        "the name `x` twice",
    );
    says(
        b"\x0b\x0b\x01S\x01\x01x\x00\x01\x01x",
        1,
        names,
        "the name `x` twice",
    );
    says(
        b"\x0b\x0b\x02S\xff\x00\x00",
        4,
        "the name of a shape in valid UTF-8",
        "invalid bytes",
    );
}

#[test]
fn static_values_are_checked() {
    says(
        b"\x05\x01\x01\x01\x00",
        3,
        "one of the 0 static values read before",
        "static value number 0",
    );
    says(
        b"\x05\x02\x02\x00\x00\x02\x00\x00",
        5,
        "one of the 1 static values read before",
        "static value number 1",
    );
    says(b"\x05\x01\x01\x00\x0d\x00", 4, "data", "the code 13");
    says(b"\x05\x01\x01\x00\x04\x00\x00", 7, "a float", "the end");
    says(
        b"\x05\x01\x01\x00\x05\x01\x80\x00",
        6,
        "a text in valid UTF-8",
        "invalid bytes",
    );
}

#[test]
fn keys_must_be_sorted_and_distinct() {
    says(
        b"\x05\x02\x02\x00\x01\x01\x00\x00",
        0,
        "different keys",
        "the key False twice",
    );
    says(
        b"\x04\x02\x03\x00\x01\x01\x00\x08\x00\x00",
        0,
        "different keys",
        "the key False twice",
    );
    says(
        b"\x04\x02\x03\x00\x02\x00\x01\x00\x08\x00\x00",
        0,
        "keys in ascending order",
        "keys in another order",
    );
    let read = TreeDef::from_bytes(b"PYTD\x01\x05\x02\x02\x00\x02\x00\x01\x00\x00").unwrap();
    let paths: Vec<String> = read.leaf_paths().iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["[True]", "[False]"]);
    // Inside of other data too.
    says(
        b"\x04\x02\x03\x00\x06\x01\x02\x00\x06\x01\x01\x00\x08\x00\x00",
        0,
        "keys in ascending order",
        "keys in another order",
    );
    // Records have the order of their type, and of what is opaque there may be two of one text.
    for own in [
        &b"\x0b\x01B\x00"[..],
        b"\x06\x01\x0b\x01B\x00",
        b"\x07\x01\x0b\x01B\x00",
        b"\x09\x0b\x01B\x00",
    ] {
        let other: Vec<u8> = own
            .iter()
            .map(|&byte| if byte == b'B' { b'A' } else { byte })
            .collect();
        let bytes = [
            b"PYTD\x01\x04\x02\x03\x00",
            own,
            b"\x00",
            &other,
            b"\x00\x08\x00\x00",
        ]
        .concat();
        crate::serial::read_back(&TreeDef::from_bytes(&bytes).unwrap());
        let twice = [b"\x04\x02\x03\x00", own, b"\x01\x00\x08\x00\x00"].concat();
        assert_eq!(node(&twice).1, "different keys");
    }
    for opaque in [
        &b"\x0c\x01T\x01x"[..],
        b"\x0a\x01\x00\x0c\x01T\x01x",
        b"\x0a\x01\x0c\x01T\x01x\x00",
        b"\x0b\x01R\x01\x01f\x0c\x01T\x01x",
    ] {
        let bytes = [b"PYTD\x01\x05\x02\x02\x00", opaque, b"\x01\x00\x00"].concat();
        crate::serial::read_back(&TreeDef::from_bytes(&bytes).unwrap());
    }
}

#[test]
fn insertion_order_must_match_keys() {
    let order = "an insertion order of 2 keys";
    let dict = |order: &[u8]| [b"\x04\x02\x03\x00\x01\x00\x02\x00", order, b"\x00\x00"].concat();
    says(&dict(b"\x00"), 0, order, "()");
    says(&dict(b"\x09\x07\x01\x03\x00"), 0, order, "Some([0])");
    says(
        &dict(b"\x09\x07\x02\x03\x00\x03\x00"),
        0,
        order,
        "Some([0, 0])",
    );
    says(
        &dict(b"\x09\x07\x02\x03\x02\x03\x04"),
        0,
        order,
        "Some([1, 2])",
    );
    says(
        &dict(b"\x09\x07\x03\x03\x02\x03\x00\x03\x04"),
        0,
        order,
        "Some([1, 0, 2])",
    );
    let right = [b"PYTD\x01", &dict(b"\x09\x07\x02\x03\x02\x03\x00")[..]].concat();
    crate::serial::read_back(&TreeDef::from_bytes(&right).unwrap());
}

#[test]
fn alias_must_refer_to_ended_node() {
    says(
        b"\x0a\x00\x01\x00\x03\x00",
        0,
        "an alias of one of the 0 shared nodes",
        "an alias of node 0",
    );
    // Inside of the shared node itself.
    says(
        b"\x09\x01\x00\x0a\x00\x01\x00\x03\x00",
        3,
        "an alias of one of the 1 shared nodes",
        "an alias of node 0",
    );
    let pair = |number: u8| [3, 2, 0, 9, 1, 0, 0, 10, 0, 1, 0, 3, number];
    says(
        &pair(2),
        7,
        "an alias of one of the 1 shared nodes",
        "an alias of node 1",
    );
    says(
        &pair(1),
        7,
        "an alias of one of the 1 shared nodes",
        "an alias of node -1",
    );
    let right = [b"PYTD\x01", &pair(0)[..]].concat();
    crate::serial::read_back(&TreeDef::from_bytes(&right).unwrap());
}

/// A weak edge whose child follows.
const WEAK: &[u8] = b"\x0b\x0f\x04weak\x00\x00\x01\x00";
/// A reference whose child follows, first with its shape, and where that was met.
const REFERENCE: &[u8] = b"\x0b\x0e\x09reference\x00\x00\x01\x00";
const AGAIN: &[u8] = b"\x0c\x01\x00";
/// A shared node whose child follows, and a list of two.
const SHARED: &[u8] = b"\x09\x01\x00";
const LIST: &[u8] = b"\x02\x02\x00";
const LEAF: &[u8] = b"\x00";
const ALIAS_OF_NOTHING: &[u8] = b"\x0a\x00\x01\x00\x00";

/// An alias of a node by its number, doubled if it is not negative.
const fn alias(number: u8) -> [u8; 6] {
    [0x0a, 0, 1, 0, 3, number]
}

fn accepted(parts: &[&[u8]]) -> String {
    let bytes = [b"PYTD\x01", parts.concat().as_slice()].concat();
    let treedef = TreeDef::from_bytes(&bytes).unwrap();
    crate::serial::read_back(&treedef).to_string()
}

fn refused_alias(parts: &[&[u8]], nodes: usize, found: &str) {
    let bytes = parts.concat();
    let expected = format!("an alias of one of the {nodes} shared nodes");
    let (position, of, that) = node(&bytes);
    assert_eq!((of, that), (expected, found.to_owned()), "{bytes:?}");
    assert_eq!(bytes[position], 0x0a, "where the alias is: {bytes:?}");
}

#[test]
fn alias_of_weak_edge_may_precede_node() {
    let awaited = "an alias as the child of a weak edge";
    says(&[WEAK, LEAF].concat(), WEAK.len(), awaited, "Leaf");
    let list = [WEAK, LIST, LEAF, LEAF].concat();
    says(&list, WEAK.len(), awaited, "List");
    let edge = [WEAK, &[0x0c, 1, 0][..], &alias(0)].concat();
    says(&edge, WEAK.len(), awaited, "Weak");

    let later = accepted(&[LIST, WEAK, &alias(0), SHARED, LEAF]);
    assert_eq!(later, "PyTreeDef([alias 0, *])");
    accepted(&[SHARED, WEAK, &alias(0)]);
    accepted(&[WEAK, ALIAS_OF_NOTHING]);
    refused_alias(&[WEAK, &alias(0)], 0, "an alias of node 0");
    refused_alias(
        &[LIST, WEAK, &alias(2), SHARED, LEAF],
        1,
        "an alias of node 1",
    );
    refused_alias(
        &[LIST, WEAK, &alias(1), SHARED, LEAF],
        0,
        "an alias of node -1",
    );
    let text = b"\x0a\x00\x01\x00\x05\x01x";
    refused_alias(&[LIST, WEAK, text, SHARED, LEAF], 0, "an alias of node 'x'");
    // A strong one leads somewhere.
    refused_alias(&[ALIAS_OF_NOTHING], 0, "an alias of node ()");
}

#[test]
fn strong_cycle_requires_reference() {
    accepted(&[REFERENCE, &alias(0)]);
    accepted(&[SHARED, REFERENCE, &alias(0)]);
    accepted(&[REFERENCE, SHARED, AGAIN, LIST, &alias(2), &alias(0)]);
    accepted(&[SHARED, LIST, REFERENCE, LEAF, AGAIN, &alias(0)]);
    // A cycle of shared nodes can't be built, around them and in a reference neither.
    refused_alias(&[SHARED, SHARED, &alias(0)], 2, "an alias of node 0");
    refused_alias(&[REFERENCE, SHARED, &alias(2)], 2, "an alias of node 1");
    // The reference has ended.
    let over = [SHARED, LIST, REFERENCE, LEAF, &alias(0)];
    refused_alias(&over, 2, "an alias of node 0");
    let nested = [
        SHARED,
        LIST,
        REFERENCE,
        LIST,
        AGAIN,
        LEAF,
        LEAF,
        &alias(0)[..],
    ];
    refused_alias(&nested, 3, "an alias of node 0");
}

#[test]
fn reference_must_have_reference_shape() {
    let expected = "the shape of a reference, with at most one field";
    let kinds: [&[u8]; 2] = [b"\x01", b"\x02\x05State"];
    for kind in kinds {
        let shape = [b"\x0b\x0e\x09reference\x01\x05value", kind, b"\x00\x01\x00"].concat();
        accepted(&[&shape, LEAF]);
    }
    let shapes: [&[u8]; 6] = [
        b"\x04cell\x00\x00",
        b"\x09reference\x00\x01\x01s",
        b"\x09reference\x01\x01x\x01\x00",
        b"\x09reference\x01\x05value\x00\x00",
        b"\x09reference\x01\x05value\x03\x00",
        b"\x09reference\x02\x05value\x01\x01x\x01\x00",
    ];
    for shape in shapes {
        let bytes = [b"\x0b\x0e", shape, b"\x01\x00\x00"].concat();
        assert_eq!((node(&bytes).0, node(&bytes).1.as_str()), (1, expected));
    }
}

fn valid() -> Vec<Vec<u8>> {
    let model = (
        linear(),
        vec![
            Choice::Two {
                left: 1.0,
                right: vec![2.0],
            },
            Choice::Nothing,
        ],
    );
    let mixed = tree!({"b": [1, None], 2: (3, {"z": 1, "a": 2}), (1, "x"): [], 0.5: 4});
    let shared = pytree_core::Shared::new(vec![1.0_f32]);
    let tied = pytree_core::graph::structure(&(shared.clone(), Some(1), shared));
    let [part, _] = partition::split(
        &vec![1.0_f32, 2.0],
        [Filter::path("[0]"), Filter::everything()],
    )
    .unwrap();
    vec![
        tree::structure(&model).to_bytes(),
        mixed.treedef().to_bytes(),
        tied.to_bytes(),
        part.tree().treedef().to_bytes(),
        TreeDef::leaf().to_bytes(),
    ]
}

/// What is read holds together: it is shown, walked, written and built without failing otherwise than by an error.
fn holds_together(bytes: &[u8]) {
    match TreeDef::from_bytes(bytes) {
        Err(TreeError::Bytes { position, .. }) => assert!(position <= bytes.len()),
        Err(TreeError::Build { reason, .. }) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
        Ok(treedef) => {
            crate::serial::read_back(&treedef);
            assert!(treedef.to_string().starts_with("PyTreeDef("));
            assert_eq!(treedef.leaf_paths().len(), treedef.num_leaves());
            let _ = treedef.is_tuple_member();
            assert_eq!(treedef.differences(&treedef), []);
            let _ = treedef.differences(tree!([1, {"a": 2}]).treedef());
            let leaves = vec![1.0_f32; treedef.num_leaves()];
            let tree = Tree::new(treedef.clone(), leaves.clone()).unwrap();
            let tuple: Result<(crate::serial::Linear, Vec<Choice>), _> =
                tree::unflatten(&treedef, leaves.clone());
            let map: Result<indexmap::IndexMap<String, f32>, _> = tree::unflatten(&treedef, leaves);
            let _ = (tuple, map, tree.to_string());
        }
    }
}

#[test]
fn truncated_bytes_are_rejected_at_every_length() {
    for bytes in valid() {
        assert!(TreeDef::from_bytes(&bytes).is_ok());
        for length in 0..bytes.len() {
            let (position, _, _) = refused(&bytes[..length]);
            assert!(position <= length);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        holds_together(&bytes);
        bytes.splice(0..0, *b"PYTD\x01");
        holds_together(&bytes);
    }

    #[test]
    fn small_numbers_are_read_or_refused(mut bytes in prop::collection::vec(0_u8..16, 0..60)) {
        bytes.splice(0..0, *b"PYTD\x01");
        holds_together(&bytes);
    }

    #[test]
    fn changed_bytes_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..4),
    ) {
        let valid = valid();
        let mut bytes = valid[which.index(valid.len())].clone();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes[at] ^= 1 << (byte % 8),
            }
        }
        holds_together(&bytes);
    }
}

#[test]
fn absent_leaf_with_splits_is_read_from_version_3() {
    // A tuple of a leaf, and of an absent leaf with some splits.
    let tuple = |version: u8, splits: &[u8]| {
        let absent = [&[11, 1], splits].concat();
        TreeDef::from_bytes(&[b"PYTD", &[version, 3, 2, 0, 0][..], &absent].concat())
    };
    let read = tuple(3, b"\x01").unwrap();
    assert_eq!(read.to_string(), "PyTreeDef((*, -))");
    let with_part = (
        1.0_f32,
        partition::filter::<f32, f32>(&2.0, &!Filter::everything()),
    );
    assert_eq!(read, tree::structure(&with_part).as_whole());
    assert_ne!(read, tree::structure(&with_part));
    assert_eq!(tuple(3, b"\x02").unwrap(), read.as_whole());
    assert_ne!(
        tuple(3, b"\x02").unwrap().content_hash(),
        read.content_hash()
    );
    for splits in [&b"\x00"[..], b"\x80", b"\xff\xff\xff\xff\x10", b""] {
        assert!(tuple(3, splits).is_err(), "{splits:?}");
    }
    assert!(tuple(2, b"\x01").is_err());
}
