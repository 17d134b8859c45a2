//! Numbers of a tree that become numbers of another type, without loss.

use std::collections::BTreeMap;
use std::fmt::Debug;

use pytree_core::{AnyLeaf, Leaf, Module, Pytree, Tree, TreeError, graph, tree};

fn converts<T: Leaf, U: Pytree + Clone + Debug + PartialEq>(from: T, to: U) {
    let tree: Tree = Tree::leaf(AnyLeaf::new(from));
    assert_eq!(tree.to_value::<U>().unwrap(), to);
}

fn fails<T: Leaf + Clone, U: Pytree + Debug>(from: T) -> String {
    let tree: Tree = Tree::list(vec![Tree::leaf(AnyLeaf::new(from))]);
    let error = tree.to_value::<Vec<U>>().unwrap_err();
    let TreeError::LeafTypes { mismatches, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(mismatches[0].path.to_string(), "[0]");
    mismatches[0].found.clone()
}

#[test]
fn numbers_convert_without_loss() {
    converts(1_i32, 1_i64);
    converts(-1_i64, -1_i8);
    converts(255_i32, 255_u8);
    converts(u64::MAX, u64::MAX);
    converts(i64::MIN, i64::MIN as f64);
    converts(1_i32 << 24, 16_777_216.0_f32);
    converts(0.1_f32, f64::from(0.1_f32));
    converts(0.5_f64, 0.5_f32);
    converts(f64::INFINITY, f32::INFINITY);
    let tree: Tree = Tree::leaf(AnyLeaf::new(-0.0_f64));
    assert!(tree.to_value::<f32>().unwrap().is_sign_negative());
    let tree: Tree = Tree::leaf(AnyLeaf::new(f64::NAN));
    assert!(tree.to_value::<f32>().unwrap().is_nan());
}

#[test]
fn lossy_conversion_names_value_and_type() {
    let text =
        |value: &str, expected: &str| format!("{value}, which {expected} cannot represent exactly");
    assert_eq!(fails::<_, u8>(256_i32), text("256 of type i32", "u8"));
    assert_eq!(fails::<_, u8>(-1_i32), text("-1 of type i32", "u8"));
    assert_eq!(
        fails::<_, i64>(u64::MAX),
        text("18446744073709551615 of type u64", "i64")
    );
    assert_eq!(
        fails::<_, f32>((1_i32 << 24) + 1),
        text("16777217 of type i32", "f32")
    );
    assert_eq!(
        fails::<_, f64>(u64::MAX),
        text("18446744073709551615 of type u64", "f64")
    );
    assert_eq!(fails::<_, f32>(0.1_f64), text("0.1 of type f64", "f32"));
    assert_eq!(fails::<_, f32>(1e300_f64).split(' ').nth(1), Some("of"));
    assert_eq!(fails::<_, i32>(1.0_f64), text("1 of type f64", "i32"));
    assert_eq!(fails::<_, String>(1_i32), "i32");
    assert_eq!(fails::<_, bool>(1_i32), "i32");
    assert_eq!(fails::<_, i32>(true), "bool");
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Line {
    #[param]
    slope: f32,
    #[state]
    steps: u64,
}

#[test]
fn typed_values_are_built_from_literals() {
    let tree = tree!({"a": (1, [2]), "b": (3, [])});
    let value: BTreeMap<String, (i64, Vec<Option<u8>>)> = tree.to_value().unwrap();
    assert_eq!(value["a"], (1, vec![Some(2)]));
    let line = Line {
        slope: 0.5,
        steps: 3,
    };
    let (_, treedef) = graph::flatten_any(&line);
    let leaves = vec![AnyLeaf::new(0.5_f64), AnyLeaf::new(3_i32)];
    let tree: Tree = graph::unflatten(&treedef, leaves.clone()).unwrap();
    assert_eq!(tree.to_value::<Line>().unwrap(), line);
    // Only `to_value` converts: other functions never change the type of a leaf.
    assert!(graph::unflatten::<Line, _>(&treedef, leaves).is_err());
    assert!(tree!([1, 2]).cast::<i64>().is_err());
}
