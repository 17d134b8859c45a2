//! Leaves of any types, compared, cast and mapped.

use ndarray::array;
use pytree_core::{AnyLeaf, KeyPath, Leaf, Tree, TreeError, tree};

#[derive(Leaf, Clone, Debug)]
#[allow(dead_code, reason = "it is read as text")]
struct Opaque(i32);

#[test]
fn trees_of_any_leaves_are_compared() {
    assert_eq!(tree!([1, {"a": "b"}]), tree!([1, {"a": "b"}]));
    assert_ne!(tree!([1]), tree!([2]));
    assert_ne!(tree!([1]), tree!((1,)));
    assert_ne!(tree!([1]), tree!([1_i64]), "another element type");
    assert_ne!(tree!([i64::MAX]), tree!([i64::MAX - 1]), "exactly");
    assert_eq!(tree!([f64::NAN]), tree!([f64::NAN]));
    assert_eq!(
        AnyLeaf::new(array![1.0, 2.0]),
        AnyLeaf::new(array![1.0, 2.0])
    );
    assert_ne!(
        AnyLeaf::new(array![1.0, 2.0]),
        AnyLeaf::new(array![1.0, 3.0])
    );
    assert_eq!(AnyLeaf::new(Opaque(1)), AnyLeaf::new(Opaque(1)));
    assert_ne!(AnyLeaf::new(Opaque(1)), AnyLeaf::new(Opaque(2)));
    assert_ne!(AnyLeaf::new("a"), AnyLeaf::new("a".to_owned()));
    let leaf = AnyLeaf::new(Opaque(3));
    assert_eq!(leaf.downcast_ref::<Opaque>().unwrap().0, 3);
}

#[test]
fn failed_cast_reports_all_other_leaves() {
    let numbers: Tree<i32> = tree!([1, [2]]).cast().unwrap();
    assert_eq!(numbers.leaves(), [1, 2]);
    let error = tree!([1, "a", {"k": 2.0}]).cast::<i32>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot cast a tree: 2 places:\n  at [1]: expected a leaf of type i32, found &str\n  at [2]['k']: expected a leaf of type i32, found f64"
    );
}

#[test]
fn leaves_of_one_type_are_mapped() {
    let tree = tree!([1, "a", 2]).map_of(|number: &i32| f64::from(*number) / 2.0);
    assert_eq!(tree, tree!([0.5, "a", 1.0]));
}

#[test]
fn tree_is_indexed_by_text_or_path() {
    let tree: Tree<i32> = tree!({"a": [1, 2]}).cast().unwrap();
    let path: KeyPath = "['a'][1]".parse().unwrap();
    assert_eq!(tree.get(&path).unwrap(), &2);
    assert_eq!(tree.get("['a'][1]").unwrap(), &2);
    assert_eq!(tree.get(&"['a'][0]".to_owned()).unwrap(), &1);
    assert_eq!(tree["['a'][0]"], 1);
    assert_eq!(
        tree.at("['a']").unwrap().to_tree(),
        tree!([1, 2]).cast().unwrap()
    );
    assert!(matches!(
        tree.get("['a'"),
        Err(TreeError::PathSyntax { .. })
    ));
    let sum: i32 = (&tree).into_iter().sum();
    assert_eq!(sum, 3);
    let mut seen = Vec::new();
    for leaf in &tree {
        seen.push(*leaf);
    }
    assert_eq!(seen, [1, 2]);
}

#[test]
#[should_panic(expected = "cannot index a tree: no leaf at ['b']; did you mean `['a']`?")]
fn index_with_missing_path_panics() {
    let _ = &tree!({"a": 1})["['b']"];
}
