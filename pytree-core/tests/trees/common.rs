//! Common suffixes: what trees become where others go on below their leaves.

use pytree_core::error::Difference;
use pytree_core::filter::Filter;
use pytree_core::shape::NodeKind;
use pytree_core::{Pytree, Shared, Tree, TreeDef, TreeError, graph, partition, tree};

use crate::trees::integers;

#[derive(Clone, Debug, PartialEq, Pytree)]
struct Layer {
    weight: Vec<i64>,
    bias: Option<i64>,
    #[pytree(static)]
    rate: f64,
}

fn suffix(left: &Tree, right: &Tree) -> String {
    let found = left.treedef().broadcast_to_common_suffix(right.treedef());
    let found = found.unwrap();
    assert!(left.treedef().is_prefix_of(&found));
    assert!(right.treedef().is_prefix_of(&found));
    found.to_string()
}

fn conflicts(left: &TreeDef, right: &TreeDef) -> Vec<Difference> {
    match left.broadcast_to_common_suffix(right) {
        Err(TreeError::Structure { doing, differences }) => {
            assert_eq!(
                doing,
                "cannot broadcast to a common suffix, because all trees must have the same node wherever none of them has a leaf"
            );
            differences
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn leaves_extend_to_other_subtrees() {
    let left = tree!([1, (2, 3), {"k": 4}, None, Point(x = 5, y = [6])]);
    let right = tree!([[7, 8], 9, {"k": (10,)}, 11, Point(x = {"z": 12}, y = 13)]);
    let expected = "PyTreeDef([[*, *], (*, *), {'k': (*,)}, None, CustomNode(namedtuple[Point], [{'z': *}, [*]])])";
    assert_eq!(suffix(&left, &right), expected);
    assert_eq!(suffix(&right, &left), expected);
    let (left, right) = (integers(&left), integers(&right));
    let (left, right) = left.broadcast_common(&right).unwrap();
    assert_eq!(
        left.to_string(),
        "[[1, 1], (2, 3), {'k': (4,)}, None, Point(x={'z': 5}, y=[6])]"
    );
    assert_eq!(
        right.to_string(),
        "[[7, 8], (9, 9), {'k': (10,)}, None, Point(x={'z': 12}, y=[13])]"
    );
}

#[test]
fn mapped_trees_may_have_different_leaf_types() {
    let numbers = integers(&tree!([1, (2, 3)]));
    let texts = integers(&tree!([[4, 5], 6])).map(|number| format!("t{number}"));
    let (numbers, texts) = numbers.broadcast_common(&texts).unwrap();
    assert_eq!(numbers.leaves(), [1, 1, 2, 3]);
    assert_eq!(texts.leaves(), ["t4", "t5", "t6", "t6"]);
    assert_eq!(numbers.treedef(), texts.treedef());
}

#[test]
fn common_suffix_with_prefix_is_full_structure() {
    let full = tree!([{"a": (1, 2), "b": None}, [], 3]);
    for prefix in [
        tree!(0),
        tree!([0, 0, 0]),
        tree!([{"a": 0, "b": 0}, [], 0]),
        full.clone(),
    ] {
        let (prefix, full) = (prefix.treedef(), full.treedef());
        assert_eq!(prefix.broadcast_to_common_suffix(full).unwrap(), *full);
        assert_eq!(full.broadcast_to_common_suffix(prefix).unwrap(), *full);
    }
}

/// A mistake in the one does not hide that in another.
#[test]
fn all_conflicts_are_reported_with_paths() {
    let left = tree!([[1], (2, 3), {"a": 4}, 5, ordered {"x": 6, "y": 7}, Point(x = [8])]);
    let right =
        tree!([(1,), (2, 3, 4), {"b": [5]}, [6], ordered {"y": 7, "x": 8}, Point(x = (9,))]);
    let found = conflicts(left.treedef(), right.treedef());
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "node type at [0]: a list of 1 against a tuple of 1",
            "number of children at [1]: 2 against 3",
            "keys at [2]: ['a'] against ['b']; 'a' is missing, 'b' is unexpected",
            "keys at [4]: ['x', 'y'] against ['y', 'x']; the order differs",
            "node type at [5].x: a list of 1 against a tuple of 1",
        ]
    );
    let error = left.broadcast_common(&right).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot broadcast to a common suffix, because all trees must have the same node wherever none of them has a leaf: the trees differ in 5 places:\n  node type at [0]"),
        "{error}"
    );
}

/// What follows a leaf of the one and a subtree of the other is compared at its own place.
#[test]
fn positions_after_subtrees_correspond() {
    let left = tree!([1, (2, [3]), [4], (5,)]);
    let right = tree!([[(6,), 7], 8, (9,), (10, 11)]);
    let found = conflicts(left.treedef(), right.treedef());
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "node type at [2]: a list of 1 against a tuple of 1",
            "number of children at [3]: 1 against 2",
        ]
    );
}

#[test]
fn failed_broadcast_changes_neither_treedef() {
    let (left, right) = (tree!({"a": 1}), tree!(ordered {"c": 1, "b": 2}));
    let copy = right.clone();
    conflicts(left.treedef(), right.treedef());
    assert_eq!(right.treedef(), copy.treedef());
    assert_eq!(
        right.treedef().content_hash(),
        copy.treedef().content_hash()
    );
    assert_eq!(right.to_string(), "OrderedDict({'c': 1, 'b': 2})");
}

#[test]
fn static_values_and_fields_must_agree() {
    let layer = |rate: f64, weight: Vec<i64>, bias: Option<i64>| Layer { weight, bias, rate };
    let one = tree::structure(&layer(0.5, vec![1, 2], Some(3)));
    let other = tree::structure(&layer(0.5, vec![4, 5], Some(6)));
    let common = one.broadcast_to_common_suffix(&other).unwrap();
    assert_eq!(common, one);
    let keys = |treedef: &TreeDef| -> Vec<String> {
        treedef
            .leaf_paths()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(keys(&common), ["weight[0]", "weight[1]", "bias"]);
    let other = tree::structure(&layer(0.25, vec![4], Some(6)));
    let found = conflicts(&one, &other);
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "static value at the root: rate = 0.5 against rate = 0.25",
            "number of children at weight: 2 against 1",
        ]
    );
}

#[test]
fn options_are_looked_through() {
    let of = |value: Option<Vec<i64>>| tree::structure(&(value, 1_i64));
    let bare = |inner: Tree| tree::structure(&Tree::tuple(vec![inner, tree!(1)]));
    let common = |left: &TreeDef, right: &TreeDef| left.broadcast_to_common_suffix(right).unwrap();
    let scalar = tree::structure(&(Some(7_i64), 1_i64));
    // A leaf in `Some` stands for `None`, and gives way to it.
    assert_eq!(common(&scalar, &of(None)), of(None));
    assert_eq!(common(&of(None), &scalar), of(None));
    // And for what is in a `Some` or in none.
    assert_eq!(common(&scalar, &of(Some(vec![1]))), of(Some(vec![1])));
    assert_eq!(common(&of(Some(vec![1])), &scalar), of(Some(vec![1])));
    assert_eq!(common(&scalar, &bare(tree!([1]))), bare(tree!([1])));
    assert_eq!(
        common(&bare(tree!(1)), &of(Some(vec![1, 2]))),
        of(Some(vec![1, 2]))
    );
    // Where both end or both go on, the `Some` of either stays, and there is one only.
    assert_eq!(common(&scalar, &bare(tree!(1))), scalar);
    assert_eq!(common(&bare(tree!(1)), &scalar), scalar);
    assert_eq!(common(&scalar, &scalar), scalar);
    assert_eq!(
        common(&of(Some(vec![1])), &bare(tree!([(2, 3)]))).to_string(),
        "PyTreeDef(([(*, *)], *))"
    );
    let in_some = tree::structure(&(Some(vec![(2_i64, 3_i64)]), 1_i64));
    assert_eq!(common(&of(Some(vec![1])), &bare(tree!([(2, 3)]))), in_some);
    assert_eq!(common(&bare(tree!([(2, 3)])), &of(Some(vec![1]))), in_some);
    assert_eq!(common(&of(Some(vec![1])), &in_some), in_some);
    // A node is no `None`.
    let found = conflicts(&of(Some(vec![1])), &of(None));
    assert_eq!(
        found[0].to_string(),
        "node type at [0]: a list of 1 against `None`"
    );
    assert_eq!(found.len(), 1);
}

#[test]
fn shared_nodes_are_looked_through() {
    let shared = Shared::new(vec![1_i64, 2]);
    let tied = graph::structure(&(shared.clone(), shared));
    assert_eq!(
        TreeDef::leaf().broadcast_to_common_suffix(&tied).unwrap(),
        tied
    );
    let plain = tree!([(3, 4), 5]).treedef().clone();
    let once = tree::structure(&Shared::new(vec![1_i64, 2]));
    assert_eq!(
        once.broadcast_to_common_suffix(&plain).unwrap().to_string(),
        "PyTreeDef([(*, *), *])"
    );
    assert_eq!(
        plain.broadcast_to_common_suffix(&once).unwrap().to_string(),
        "PyTreeDef([(*, *), *])"
    );
}

#[test]
fn absent_places_are_nodes() {
    let whole = vec![1_i64, 2];
    let part = partition::filter(&whole, &Filter::path("[0]"));
    let part = part.tree().treedef().clone();
    assert_eq!(part.to_string(), "PyTreeDef([*, -])");
    let full = tree::structure(&whole);
    // A leaf stands for an absent place, and gives way to it.
    assert_eq!(full.broadcast_to_common_suffix(&part).unwrap(), part);
    assert_eq!(part.broadcast_to_common_suffix(&full).unwrap(), part);
    assert_eq!(part.broadcast_to_common_suffix(&part).unwrap(), part);
    let found = conflicts(&part, tree!([1, []]).treedef());
    assert_eq!(
        found[0].to_string(),
        "node type at [1]: an absent leaf against a list of 0"
    );
}

#[test]
fn broadcast_map_accepts_any_number_of_trees() {
    let first = integers(&tree!([1, 2, {"a": 3, "b": 4}]));
    let rest = [
        tree!([(10, 20), 30, 40]),
        tree!(100),
        tree!([1000, [2000, 3000], 4000]),
    ];
    let rest: Vec<Tree<i64>> = rest.iter().map(integers).collect();
    let sums = first.broadcast_map(&rest, |leaf, rest| leaf + rest.iter().copied().sum::<i64>());
    let sums = sums.unwrap();
    assert_eq!(
        sums.to_string(),
        "[(1111, 1121), [2132, 3132], {'a': 4143, 'b': 4144}]"
    );
    assert_eq!(
        first
            .broadcast_map(&[] as &[Tree<i64>], |leaf, _| *leaf)
            .unwrap(),
        first
    );
}

/// The paths are those of the structure they have in common.
#[test]
fn broadcast_map_result_has_common_paths() {
    let first = integers(&tree!(((1, 2, None), (3, (4, [5]), 6))));
    let second = integers(&tree!((([7], None, 8), ({"k": 9}, 10, [11, 12]))));
    let pairs = first
        .broadcast_map(&[second], |left, right| (*left, *right[0]))
        .unwrap();
    let shown: Vec<String> = pairs
        .iter_with_path()
        .map(|(path, (left, right))| format!("{path} {left} {right}"))
        .collect();
    assert_eq!(
        shown,
        [
            "[0][0][0] 1 7",
            "[1][0]['k'] 3 9",
            "[1][1][0] 4 10",
            "[1][1][1][0] 5 10",
            "[1][2][0] 6 11",
            "[1][2][1] 6 12",
        ]
    );
}

#[test]
fn conflicts_of_all_trees_are_reported() {
    let first = integers(&tree!([1, [2]]));
    let rest = [
        tree!([1, (2,)]),
        tree!([(3, 4), 5]),
        tree!([[6], 7]),
        tree!([8]),
    ];
    let rest: Vec<Tree<i64>> = rest.iter().map(integers).collect();
    let mut called = false;
    let error = first
        .broadcast_map(&rest, |_, _| called = true)
        .unwrap_err();
    assert!(!called);
    let TreeError::Structure { differences, .. } = error else {
        panic!("{error}");
    };
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "node type at [1]: a list of 1 against a tuple of 1 in `rest[0]`",
            "node type at [0]: a tuple of 2 against a list of 1 in `rest[2]`",
            "number of children at the root: 2 against 1 in `rest[3]`",
        ]
    );
}

/// A subtree that was cut out as a leaf stays a leaf, even if it is broadcast to a tree with other nodes.
#[test]
fn cut_trees_are_broadcast_with_their_own_leaves() {
    let tuples = |tree: &Tree<i64>| tree.cut(|subtree| subtree.kind() == NodeKind::Tuple);
    let (left, right) = (
        integers(&tree!([5, (1, 2)])),
        integers(&tree!([[(3, 4), 6], 7])),
    );
    let (left, right) = tuples(&left).broadcast_common(&tuples(&right)).unwrap();
    assert_eq!(left.treedef().to_string(), "PyTreeDef([[*, *], *])");
    assert_eq!(format!("{left:?}"), "[[5, 5], (1, 2)]");
    assert_eq!(format!("{right:?}"), "[[(3, 4), 6], 7]");
    assert_eq!(left.join().to_string(), "[[5, 5], (1, 2)]");
}

#[test]
fn very_deep_trees_are_broadcast_iteratively() {
    let deep = |levels: usize, end: Tree<i64>| {
        let mut treedef = tree!([0]).treedef().clone();
        while treedef.num_nodes() <= levels {
            treedef = treedef.compose(&treedef);
        }
        let levels = treedef.num_nodes() - 1;
        let tree = Tree::new(treedef.compose(end.treedef()), end.leaves().to_vec());
        (levels, tree.unwrap())
    };
    let (levels, left) = deep(100_000, integers(&tree!((1, 2))));
    let (_, right) = deep(100_000, integers(&tree!(3)));
    let (_, conflict) = deep(100_000, integers(&tree!([4])));
    let (one, other) = left.broadcast_common(&right).unwrap();
    assert_eq!(one, left);
    assert_eq!(other.leaves(), [3, 3]);
    assert_eq!(
        Tree::leaf(9_i64)
            .broadcast_common(&left)
            .unwrap()
            .0
            .leaves(),
        [9, 9]
    );
    let found = conflicts(left.treedef(), conflict.treedef());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path.keys().len(), levels);
}

/// All structures that are made of these in at most so many steps.
fn structures(steps: usize) -> Vec<TreeDef> {
    let mut all = vec![TreeDef::leaf(), TreeDef::none()];
    for _ in 0..steps {
        let mut next = vec![TreeDef::leaf(), TreeDef::none(), TreeDef::list(vec![])];
        for (position, first) in all.iter().enumerate() {
            next.push(TreeDef::tuple(vec![first.clone()]));
            next.push(TreeDef::list(vec![first.clone()]));
            next.push(tree!(Some(1)).treedef().compose(first));
            let second = &all[(position * 5 + 1) % all.len()];
            next.push(TreeDef::list(vec![first.clone(), second.clone()]));
            next.push(TreeDef::list(vec![second.clone(), first.clone()]));
        }
        all = next;
    }
    all
}

/// It is the least structure of which both are prefixes, and is there exactly if there is no conflict.
#[test]
fn common_suffix_is_smallest_possible() {
    let all = structures(2);
    assert_eq!(all.len(), 68);
    let (mut found, mut refused) = (0, 0);
    for left in &all {
        for right in &all {
            let suffix = left.broadcast_to_common_suffix(right);
            let other = right.broadcast_to_common_suffix(left);
            let above = all
                .iter()
                .filter(|full| left.is_prefix_of(full) && right.is_prefix_of(full));
            let Ok(suffix) = suffix else {
                assert!(!conflicts(left, right).is_empty());
                assert!(other.is_err(), "{left} {right}");
                assert_eq!(above.count(), 0, "{left} {right}");
                refused += 1;
                continue;
            };
            assert!(
                left.is_prefix_of(&suffix) && right.is_prefix_of(&suffix),
                "{left} {right} {suffix}"
            );
            let other = other.unwrap();
            assert!(
                other.is_prefix_of(&suffix) && suffix.is_prefix_of(&other),
                "{suffix} {other}"
            );
            for full in above {
                assert!(suffix.is_prefix_of(full), "{left} {right} {suffix} {full}");
            }
            if left.is_prefix_of(right) {
                assert!(suffix.is_prefix_of(right), "{left} {right} {suffix}");
            }
            let leaves = Tree::new(left.clone(), vec![1; left.num_leaves()]).unwrap();
            assert_eq!(*leaves.broadcast_to(&suffix).unwrap().treedef(), suffix);
            found += 1;
        }
    }
    assert!(found > 500 && refused > 500, "{found} {refused}");
}
