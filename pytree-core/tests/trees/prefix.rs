//! Prefixes: which structures are, why others are not, and what is done with them.

use std::cmp::Ordering;

use pytree_core::error::{Difference, DifferenceKind};
use pytree_core::filter::Filter;
use pytree_core::{KeyPath, Pytree, Tree, TreeDef, TreeError, partition, tree};

use crate::trees::{integers, path};

#[derive(Clone, Debug, PartialEq, Pytree)]
struct Layer {
    weight: Vec<i64>,
    bias: Option<i64>,
    #[pytree(static)]
    rate: f64,
}

fn differences(prefix: &Tree, full: &Tree) -> Vec<String> {
    let found = prefix.treedef().prefix_differences(full.treedef());
    assert_eq!(
        prefix.treedef().is_prefix_of(full.treedef()),
        found.is_empty()
    );
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn all_differences_are_reported() {
    let prefix =
        tree!([[1], (2, 3), {"a": 4, "b": 5}, None, ordered {"x": 6, "y": 7}, 8, Point(x = 9)]);
    let full = tree!([(1,), (2, 3, 4), {"b": 5, "c": [], "d": 1}, 6, ordered {"y": 6, "x": 7}, [(8,)], Point(x = 9, y = 1)]);
    assert_eq!(
        differences(&prefix, &full),
        [
            "node type at [0]: a list of 1 against a tuple of 1",
            "number of children at [1]: 2 against 3",
            "keys at [2]: ['a', 'b'] against ['b', 'c', 'd']; 'a' is missing, 'c', 'd' are unexpected",
            "node type at [3]: `None` against a leaf",
            "keys at [4]: ['x', 'y'] against ['y', 'x']; the order differs",
            "node type at [6]: `Point` of (x) against `Point` of (x, y)",
        ]
    );
}

#[test]
fn children_of_differing_nodes_are_not_compared() {
    let prefix = tree!([{"a": [1]}, [2, [3]], {"k": (4,)}]);
    let full = tree!([{"b": (1,)}, [2, (3,)], {"k": [4]}]);
    assert_eq!(
        differences(&prefix, &full),
        [
            "keys at [0]: ['a'] against ['b']; 'a' is missing, 'b' is unexpected",
            "node type at [1][1]: a list of 1 against a tuple of 1",
            "node type at [2]['k']: a tuple of 1 against a list of 1",
        ]
    );
}

#[test]
fn many_keys_are_counted() {
    let dict = |range: std::ops::Range<i64>| -> Tree {
        Tree::dict(range.map(|key| (key, tree!(1_i64))).collect())
    };
    let found = differences(&dict(0..30), &dict(2..3));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("keys at the root: [0, 1, 2, "),
        "{}",
        found[0]
    );
    assert!(
        found[0].contains(", 19, and 10 more] against [2]; 0, 1, 3, "),
        "{}",
        found[0]
    );
    assert!(
        found[0].ends_with(", 20, and 9 more are missing"),
        "{}",
        found[0]
    );
}

fn parts(difference: &Difference) -> (KeyPath, &str, &str, DifferenceKind) {
    (
        difference.path.clone(),
        &difference.left,
        &difference.right,
        difference.why,
    )
}

#[test]
fn static_difference_does_not_stop_comparison() {
    let layer = |rate: f64, weight: Vec<i64>| Layer {
        weight,
        bias: None,
        rate,
    };
    let (left, right) = (layer(0.5, vec![1]), layer(0.25, vec![1, 2]));
    let found = tree::structure(&left).prefix_differences(&tree::structure(&right));
    assert_eq!(
        found.iter().map(parts).collect::<Vec<_>>(),
        [
            (
                path(""),
                "rate = 0.5",
                "rate = 0.25",
                DifferenceKind::Static
            ),
            (path("weight"), "1", "2", DifferenceKind::Arity),
        ]
    );
}

#[test]
fn types_with_equal_descriptions_are_mutual_prefixes() {
    mod other {
        #[derive(Clone, pytree_core::Pytree)]
        pub struct Twin {
            pub x: i64,
        }
    }
    #[derive(Clone, Pytree)]
    struct Twin {
        x: i64,
    }
    let (left, right) = (
        tree::structure(&Twin { x: 1 }),
        tree::structure(&other::Twin { x: 1 }),
    );
    assert_eq!(left.prefix_differences(&right), []);
    let error = tree::unflatten::<Twin, i64>(&right, vec![1]).err().unwrap();
    let message = error.to_string();
    assert!(message.contains("other::Twin` of"), "{message}");
}

#[test]
fn leaf_in_some_matches_content_or_none() {
    let prefix = tree!([Some(1), Some(2), Some(3), 4, 5]);
    let full = tree!([Some((1, 2)), None, 3, Some(4), None]);
    assert_eq!(differences(&prefix, &full), Vec::<String>::new());
    let subtrees = prefix.treedef().flatten_up_to(&full).unwrap();
    let shown: Vec<String> = subtrees
        .iter()
        .map(|tree| tree.treedef().to_string())
        .collect();
    assert_eq!(
        shown,
        [
            "PyTreeDef((*, *))",
            "PyTreeDef(None)",
            "PyTreeDef(*)",
            "PyTreeDef(*)",
            "PyTreeDef(None)"
        ]
    );
    assert_eq!(subtrees[0].to_string(), "(1, 2)");
    // A leaf that is in no `Some` stands for the whole of it.
    assert_eq!(subtrees[3].treedef(), tree!(Some(4)).treedef());
    assert_eq!(
        prefix.broadcast_to(full.treedef()).unwrap().treedef(),
        full.treedef()
    );
}

#[test]
fn nodes_are_found_in_some() {
    let some = |tree: Tree| tree!(Some(tree));
    assert_eq!(
        differences(&tree!([1, 2]), &some(tree!([1, (2,)]))),
        Vec::<String>::new()
    );
    assert_eq!(
        differences(&some(tree!([1, 2])), &tree!([1, (2,)])),
        Vec::<String>::new()
    );
    assert_eq!(
        differences(&some(tree!([1, 2])), &some(tree!((1, 2)))),
        ["node type at the root: a list of 2 against a tuple of 2"]
    );
    assert_eq!(
        differences(&tree!([None]), &tree!([Some(1)])),
        ["node type at [0]: `None` against a leaf"]
    );
    assert_eq!(
        differences(&tree!([some(tree!((1, 2))), [3]]), &tree!([None, (3,)])),
        [
            "node type at [0]: a tuple of 2 against `None`",
            "node type at [1]: a list of 1 against a tuple of 1",
        ]
    );
}

#[test]
fn options_of_typed_values_broadcast() {
    let value = Layer {
        weight: vec![1, 2],
        bias: None,
        rate: 0.5,
    };
    let axes = Layer {
        weight: vec![7, 8],
        bias: Some(9),
        rate: 0.5,
    };
    let axes: Tree<i64> = Tree::from_value(&axes);
    let broadcast = axes.broadcast_to(&tree::structure(&value)).unwrap();
    assert_eq!(
        broadcast.to_value::<Layer>().unwrap(),
        Layer {
            weight: vec![7, 8],
            ..value
        }
    );
}

#[test]
fn absent_leaf_in_prefix_is_node() {
    let value = vec![1_i64, 2];
    let [part, _] = partition::split(&value, [Filter::path("[0]"), Filter::everything()]).unwrap();
    let part = part.into_tree();
    assert_eq!(part.treedef().to_string(), "PyTreeDef([*, -])");
    let whole = tree::structure(&value);
    assert!(whole.is_prefix_of(part.treedef()));
    let found = part.treedef().prefix_differences(&whole);
    assert_eq!(
        found[0].to_string(),
        "node type at [1]: an absent leaf against a leaf"
    );
    assert_eq!(
        Tree::from_value(&value)
            .broadcast_to(part.treedef())
            .unwrap()
            .leaves(),
        [1]
    );
    let composed = part.treedef().compose(tree!((1, 2)).treedef());
    assert_eq!(composed.to_string(), "PyTreeDef([(*, *), -])");
    let cut = part.cut(|tree| {
        assert_eq!(tree.name(), "list");
        false
    });
    assert_eq!(cut.treedef(), part.treedef());
    assert_eq!(cut.join(), part);
    let folded = part.treedef().fold([1], |node, below: Vec<i32>| {
        10 * below.len() as i32 + i32::from(node.name() == "absent")
    });
    assert_eq!(folded.unwrap(), 20);
}

#[test]
fn prefix_order_is_partial() {
    let order = |left: &Tree, right: &Tree| left.treedef().partial_cmp(right.treedef());
    assert_eq!(order(&tree!([1]), &tree!([2])), Some(Ordering::Equal));
    assert_eq!(order(&tree!([1]), &tree!([(2,)])), Some(Ordering::Less));
    assert_eq!(order(&tree!([(2,)]), &tree!([1])), Some(Ordering::Greater));
    assert_eq!(order(&tree!([1, (2,)]), &tree!([(1,), 2])), None);
    // Each is a prefix of the other, and yet they are not equal.
    assert_eq!(order(&tree!(Some(1)), &tree!(1)), None);
    assert!(tree!(Some(1)).treedef().is_prefix_of(tree!(1).treedef()));
    assert!(tree!(1).treedef().is_prefix_of(tree!(Some(1)).treedef()));
}

#[test]
fn errors_of_a_single_tree_are_reported() {
    let prefix = tree!([[1], 2]);
    let full = tree!([(1,), 2]);
    let error = prefix.treedef().flatten_up_to(&full).unwrap_err();
    let doing = "cannot take the subtrees at the leaves of a prefix";
    let TreeError::Prefix {
        doing: found,
        misfits,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(*found, doing);
    let [misfit] = &misfits[..] else {
        panic!("{error}");
    };
    assert_eq!(misfit.tree, None);
    let kind = DifferenceKind::NodeType;
    assert_eq!(
        parts(&misfit.difference),
        (path("[0]"), "a list of 1", "a tuple of 1", kind)
    );
    assert_eq!(
        error.to_string(),
        "cannot take the subtrees at the leaves of a prefix: the first tree is not a prefix: node type at [0]: a list of 1 against a tuple of 1; pass a prefix: the full tree, or a copy of it in which leaves replace some subtrees"
    );
    let error = prefix.broadcast_to(full.treedef()).unwrap_err();
    assert_eq!(
        error,
        TreeError::Prefix {
            doing: "cannot broadcast",
            misfits: misfits.clone()
        }
    );
}

#[test]
fn map_with_reports_all_errors_together() {
    let first = integers(&tree!([1, {"a": 2}]));
    let fitting = integers(&tree!([(3, 4), {"a": 5}]));
    let sums = first.map_with(&[fitting.clone(), first.clone()], |leaf, rest| {
        assert_eq!(rest.len(), 2);
        leaf + rest[0].reduce(0, |sum, leaf| sum + leaf) + 100 * rest[1].leaves()[0]
    });
    assert_eq!(sums.unwrap(), integers(&tree!([108, {"a": 207}])));
    assert_eq!(
        first
            .map_with::<i64, _>(&[], |leaf, rest| (rest.len(), *leaf))
            .unwrap()
            .leaves(),
        [(0, 1), (0, 2)]
    );
    let shorter = integers(&tree!([3]));
    let other = integers(&tree!([3, {"b": 4}]));
    let error = first
        .map_with(&[shorter, fitting, other], |_, _| ())
        .unwrap_err();
    let TreeError::Prefix { doing, misfits } = error else {
        panic!("{error}");
    };
    assert_eq!(doing, "cannot map trees together");
    let reported: Vec<String> = misfits.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "in `rest[0]`: number of children at the root: 2 against 1",
            "in `rest[2]`: keys at [1]: ['a'] against ['b']; 'a' is missing, 'b' is unexpected",
        ]
    );
}

#[test]
fn empty_tree_is_prefix_of_itself() {
    let empty = integers(&tree!([]));
    assert!(empty.treedef().is_prefix_of(empty.treedef()));
    assert!(!empty.treedef().is_prefix_of(&TreeDef::none()));
    assert!(TreeDef::leaf().is_prefix_of(&TreeDef::none()));
    assert_eq!(empty.treedef().flatten_up_to(&empty).unwrap(), []);
    assert_eq!(empty.broadcast_to(empty.treedef()).unwrap(), empty);
    assert_eq!(
        integers(&tree!(1)).broadcast_to(empty.treedef()).unwrap(),
        empty
    );
    assert_eq!(
        empty
            .map_with(std::slice::from_ref(&empty), |_, _| ())
            .unwrap()
            .leaves(),
        []
    );
}
