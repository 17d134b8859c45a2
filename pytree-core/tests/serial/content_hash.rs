//! The content hash: of what equality compares, and the same everywhere.

use std::collections::BTreeMap;

use pytree_core::shape::{DynamicShape, NodeKind};
use pytree_core::{CollectionId, FieldKind, Module, StaticBox, Tree, TreeBuilder, TreeDef, tree};

use crate::serial::keyed;

const LIST: u128 = 0x5b0d_dece_ca6b_3370_1d67_da91_3429_5cd3;
const DICT: u128 = 0xa25f_db3c_4837_ce22_cd06_ea49_0cfa_f197;
const SMALL: u128 = 0x9e9e_59c9_12f5_fa74_e2a0_5955_32eb_f5bc;

#[derive(Clone, Debug, Module)]
struct Small {
    #[param]
    weight: f32,
    #[state(pytree_core::kind::BatchStat)]
    mean: Option<f32>,
    #[r#static]
    size: i64,
}

fn small() -> TreeDef {
    tree::structure(&Small {
        weight: 1.0,
        mean: Some(2.0),
        size: 3,
    })
}

/// The hashes were computed by the `xxhash` of Python from the bytes that stand beside them.
#[test]
fn hash_matches_documented_bytes() {
    // A list of two leaves: 02 02 00, 00, 00.
    assert_eq!(tree::structure(&vec![1.0, 2.0]).content_hash(), LIST);
    // A dictionary of one key and no order: 04 01 01, 00 05 01 'a', 00.
    assert_eq!(tree!({"a": 1}).treedef().content_hash(), DICT);
    // A new shape: 0b 0b 05 "Small" 02, 06 "weight" 01, 04 "mean" 02 09 "BatchStat", 01 04 "size"; then 02 01,
    // 00 03 06; 00; 07 01 00, 00.
    assert_eq!(small().content_hash(), SMALL);
}

#[test]
fn bytes_are_as_documented() {
    assert_eq!(
        tree!({"a": 1}).treedef().to_bytes(),
        *b"PYTD\x03\x04\x01\x02\x00\x05\x01a\x00\x08\x00"
    );
    assert_eq!(
        small().to_bytes(),
        b"PYTD\x03\x0b\x0b\x05Small\x02\x06weight\x01\x04mean\x02\x09BatchStat\x01\x04size\x02\x01\x00\x03\x06\x00\x07\x01\x00\x00"
    );
    // A shape and a static value that were met are numbers.
    let one = &small().to_bytes()[5..];
    let expected = [
        b"PYTD\x03\x02\x02\x00",
        one,
        b"\x0c\x02\x01\x01\x00\x07\x01\x00\x00",
    ]
    .concat();
    let pair = [1.0, 2.0].map(|weight| Small {
        weight,
        mean: Some(0.0),
        size: 3,
    });
    assert_eq!(tree::structure(&pair).to_bytes(), expected);
}

#[test]
fn large_static_values_are_written_repeatedly() {
    let twice = |length: usize| {
        let text = "t".repeat(length);
        tree::structure(&vec![
            BTreeMap::from([(text.clone(), 1.0)]),
            BTreeMap::from([(text, 2.0)]),
        ])
        .to_bytes()
    };
    // The tag, the length and 62 bytes of text.
    assert_eq!(twice(63).len(), twice(62).len() + 66);
    assert_eq!(twice(64).len(), twice(63).len() + 2);
    crate::serial::read_back(&TreeDef::from_bytes(&twice(62)).unwrap());
    crate::serial::read_back(&TreeDef::from_bytes(&twice(63)).unwrap());
}

#[test]
fn another_process_computes_the_same_hash() {
    const CHILD: &str = "PYTREE_TEST_CONTENT_HASH";
    let hash = tree::structure(&crate::serial::linear())
        .content_hash()
        .to_string();
    if let Ok(expected) = std::env::var(CHILD) {
        assert_eq!(hash, expected);
        return;
    }
    let child = |expected: &str| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "serial::content_hash::another_process_computes_the_same_hash",
            ])
            .env(CHILD, expected)
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(child(&hash));
    assert!(!child("0"));
}

#[test]
fn insertion_order_changes_bytes_but_not_hash() {
    let (left, right) = (tree!({"a": 1, "b": 2}), tree!({"b": 1, "a": 2}));
    assert_eq!(left.treedef(), right.treedef());
    assert_eq!(
        left.treedef().content_hash(),
        right.treedef().content_hash()
    );
    assert_ne!(left.treedef().to_bytes(), right.treedef().to_bytes());
    let ordered = |keys: [&'static str; 2]| {
        Tree::ordered_dict(keys.map(|key| (key, Tree::leaf(1))).to_vec())
            .treedef()
            .content_hash()
    };
    assert_ne!(ordered(["a", "b"]), ordered(["b", "a"]));
}

#[test]
fn hash_ignores_leaf_types() {
    assert_eq!(
        tree::structure(&1.0_f32).content_hash(),
        tree::structure(&2_u8).content_hash()
    );
    assert_eq!(
        TreeDef::leaf().content_hash(),
        tree::structure(&"text".to_owned()).content_hash()
    );
}

#[test]
fn keys_with_equal_data_have_equal_hashes() {
    assert_eq!(
        keyed("a").content_hash(),
        keyed("a".to_owned()).content_hash()
    );
    assert_eq!(keyed(1_i32).content_hash(), keyed(1_u64).content_hash());
    assert_ne!(keyed(1_i32).content_hash(), keyed("1").content_hash());
    assert_ne!(keyed(true).content_hash(), keyed(1).content_hash());
}

/// A struct of one field and one static value, each by name, kind and value.
fn node(
    kind: NodeKind,
    name: &str,
    field: &str,
    field_kind: Option<FieldKind>,
    static_name: &str,
    value: i32,
) -> TreeDef {
    let shape = DynamicShape::new(kind, name, &[(field, field_kind)], &[static_name]).unwrap();
    let tree = TreeBuilder::new()
        .begin_shape(shape, vec![StaticBox::new(value)])
        .leaf(1)
        .end()
        .finish();
    tree.unwrap().treedef().clone()
}

#[test]
fn hash_covers_everything_equality_compares() {
    let ema = |name| Some(FieldKind::State(CollectionId::named(name).unwrap()));
    let list = |children: Vec<Tree<i32>>| Tree::list(children).treedef().clone();
    let leaf = || Tree::leaf(1);
    let different = [
        node(NodeKind::Struct, "A", "x", None, "s", 1),
        node(NodeKind::TupleStruct, "A", "x", None, "s", 1),
        node(NodeKind::NamedTuple, "A", "x", None, "s", 1),
        node(NodeKind::Struct, "B", "x", None, "s", 1),
        node(NodeKind::Struct, "A", "y", None, "s", 1),
        node(NodeKind::Struct, "A", "x", Some(FieldKind::Param), "s", 1),
        node(NodeKind::Struct, "A", "x", Some(FieldKind::Module), "s", 1),
        node(NodeKind::Struct, "A", "x", Some(FieldKind::Static), "s", 1),
        node(NodeKind::Struct, "A", "x", ema("One"), "s", 1),
        node(NodeKind::Struct, "A", "x", ema("Two"), "s", 1),
        node(NodeKind::Struct, "A", "x", None, "t", 1),
        node(NodeKind::Struct, "A", "x", None, "s", 2),
        TreeDef::leaf(),
        list(vec![]),
        list(vec![leaf()]),
        list(vec![leaf(), leaf()]),
        list(vec![Tree::list(vec![leaf()]), leaf()]),
        list(vec![leaf(), Tree::list(vec![leaf()])]),
        Tree::tuple(vec![leaf()]).treedef().clone(),
        Tree::<i32>::none().treedef().clone(),
        tree::structure(&Some(1)),
        tree::structure(&pytree_core::Shared::new(1)),
        Tree::dict(vec![("a", leaf())]).treedef().clone(),
        Tree::dict(vec![("b", leaf())]).treedef().clone(),
        Tree::ordered_dict(vec![("a", leaf())]).treedef().clone(),
    ];
    for (left_at, left) in different.iter().enumerate() {
        for (right_at, right) in different.iter().enumerate() {
            assert_eq!(left == right, left_at == right_at, "{left} {right}");
            assert_eq!(
                left.content_hash() == right.content_hash(),
                left_at == right_at,
                "{left} {right}"
            );
            assert_eq!(
                left.to_bytes() == right.to_bytes(),
                left_at == right_at,
                "{left} {right}"
            );
        }
        crate::serial::read_back(left);
    }
}
