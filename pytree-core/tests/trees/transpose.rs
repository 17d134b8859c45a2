//! Transpositions.

use pytree_core::error::DifferenceKind;
use pytree_core::{Pytree, Tree, TreeDef, TreeError, graph, tree};

use crate::trees::integers;

#[derive(Clone, Debug, PartialEq, Pytree)]
struct Metrics {
    loss: f64,
    norm: f64,
}

#[test]
fn transposing_twice_is_identity() {
    let tree = integers(
        &tree!([{"a": 1, "b": (2, None)}, {"a": 3, "b": (4, None)}, {"a": 5, "b": (6, None)}]),
    );
    let outer = tree!([0, 0, 0]).treedef().clone();
    let inner = tree!({"a": 0, "b": (0, None)}).treedef().clone();
    let turned = tree.transpose(&outer, Some(&inner)).unwrap();
    assert_eq!(
        turned.to_string(),
        "{'a': [1, 3, 5], 'b': ([2, 4, 6], None)}"
    );
    assert_eq!(turned.transpose(&inner, Some(&outer)).unwrap(), tree);
    assert_eq!(turned.transpose(&inner, None).unwrap(), tree);
}

#[test]
fn all_differences_are_reported() {
    let tree = integers(&tree!([(1, 2), [3, 4], (5,)]));
    let pair = tree!((0, 0)).treedef().clone();
    let error = tree
        .transpose(tree!([0, 0, 0]).treedef(), Some(&pair))
        .unwrap_err();
    let TreeError::Transpose { differences } = &error else {
        panic!("{error}");
    };
    let kinds: Vec<_> = differences
        .iter()
        .map(|found| (found.path.to_string(), found.why))
        .collect();
    assert_eq!(
        kinds,
        [
            ("[1]".to_owned(), DifferenceKind::NodeType),
            ("[2]".to_owned(), DifferenceKind::Arity),
        ]
    );
    assert_eq!(
        error.to_string(),
        "cannot transpose: expected the outer structure with the inner structure in place of each leaf; the tree differs in 2 places:\n  node type at [1]: a tuple of 2 against a list of 2\n  number of children at [2]: 2 against 1"
    );
}

#[test]
fn leaf_instead_of_subtree_is_rejected() {
    let error = integers(&tree!([(1, 2), (3, 4)]))
        .transpose(tree!([0, 0]).treedef(), Some(&TreeDef::leaf()));
    let TreeError::Transpose { differences } = error.unwrap_err() else {
        panic!("another error");
    };
    let reported: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "node type at [0]: a leaf against a tuple of 2",
            "node type at [1]: a leaf against a tuple of 2"
        ]
    );
    let some = integers(&tree!([Some(1)])).transpose(tree!([0]).treedef(), Some(&TreeDef::leaf()));
    assert_eq!(
        some.unwrap_err().to_string(),
        "cannot transpose: expected the outer structure with the inner structure in place of each leaf; the tree differs in node type at [0]: a leaf against `Some`"
    );
}

#[test]
fn transpose_without_leaf_needs_inner_structure() {
    let empty = integers(&tree!([]));
    let error = empty.transpose(empty.treedef(), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot build a transposed tree: the inner structure is unknown, because the outer structure has no leaves; pass the inner structure"
    );
    let inner = tree!((0, {"a": 0})).treedef().clone();
    let turned = empty.transpose(empty.treedef(), Some(&inner)).unwrap();
    assert_eq!(turned.to_string(), "([], {'a': []})");
    assert_eq!(turned.transpose(&inner, None).unwrap(), empty);
}

#[test]
fn outer_structure_must_be_a_prefix() {
    let error = integers(&tree!([1, 2]))
        .transpose(tree!((0, 0)).treedef(), None)
        .unwrap_err();
    assert!(matches!(error, TreeError::Prefix { .. }));
    assert!(
        error
            .to_string()
            .contains("node type at the root: a tuple of 2 against a list of 2"),
        "{error}"
    );
}

#[test]
fn typed_values_are_transposed() {
    let steps = vec![(1.0_f64, vec![2.0_f64]), (3.0, vec![4.0])];
    let outer = tree::structure(&vec![0.0_f64, 0.0]);
    let turned: (Vec<f64>, Vec<Vec<f64>>) =
        tree::transpose::<_, _, f64>(&steps, &outer, None).unwrap();
    assert_eq!(turned, (vec![1.0, 3.0], vec![vec![2.0, 4.0]]));
    let inner = tree::structure(&steps[0]);
    let back: Vec<(f64, Vec<f64>)> =
        graph::transpose::<_, _, f64>(&turned, &inner, Some(&outer)).unwrap();
    assert_eq!(back, steps);
    let wrong = tree::transpose::<_, Vec<f64>, f64>(&steps, &outer, None);
    assert!(matches!(wrong.unwrap_err(), TreeError::NodeType { .. }));
    let wrong = tree::transpose::<_, Vec<f64>, f64>(&steps, &inner, Some(&outer));
    assert!(matches!(wrong.unwrap_err(), TreeError::Transpose { .. }));
}

#[derive(Pytree, Debug, PartialEq)]
struct Statistics<T> {
    mean: T,
    #[r#static]
    unit: String,
}

#[test]
fn generic_struct_transposes_with_list() {
    let of = |mean, unit: &str| Statistics {
        mean,
        unit: unit.to_owned(),
    };
    let steps = vec![of(1.0, "m"), of(2.0, "m")];
    let outer = tree::structure(&vec![0.0, 0.0]);
    let turned: Statistics<Vec<f64>> = tree::transpose::<_, _, f64>(&steps, &outer, None).unwrap();
    assert_eq!(
        turned,
        Statistics {
            mean: vec![1.0, 2.0],
            unit: "m".to_owned()
        }
    );
    let differ = vec![of(1.0, "m"), of(2.0, "s")];
    let error = tree::transpose::<_, Statistics<Vec<f64>>, f64>(&differ, &outer, None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("static value at [1]: unit = 'm' against unit = 's'"),
        "{error}"
    );
}

#[test]
fn transposed_struct_keeps_its_type() {
    let steps = vec![
        Metrics {
            loss: 1.0,
            norm: 2.0,
        },
        Metrics {
            loss: 3.0,
            norm: 4.0,
        },
    ];
    let tree: Tree<f64> = Tree::from_value(&steps);
    let turned = tree
        .transpose(&tree::structure(&vec![0.0, 0.0]), None)
        .unwrap();
    assert_eq!(
        turned.to_string(),
        "Metrics { loss: [1.0, 3.0], norm: [2.0, 4.0] }"
    );
    assert_eq!(
        turned.treedef().child(0),
        Some(tree::structure(&vec![0.0, 0.0]))
    );
}
