//! What is made of a few functions together: choices of leaves by path, maps of several trees with paths, maps whose
//! results are turned inside out, structures transformed node by node.

use std::collections::HashSet;

use pytree_core::shape::NodeKind;
use pytree_core::{Filter, KeyPath, Tree, TreeDef, partition, tree};

use crate::trees::{integers, path};

/// The paths of a tree's leaves, as a tree.
fn paths_of<L>(tree: &Tree<L>) -> Tree<KeyPath> {
    let treedef = tree.treedef();
    Tree::new(treedef.clone(), treedef.leaf_paths()).unwrap()
}

#[test]
fn cut_can_select_by_path() {
    let tree = integers(&tree!(((1, 2), [3, {4: 4, 5: 5}])));
    let cut = tree.cut(|subtree| subtree.path().keys().len() >= 2);
    let shown: Vec<String> = cut
        .iter_with_path()
        .map(|(path, leaf)| format!("{path} {leaf}"))
        .collect();
    assert_eq!(
        shown,
        ["[0][0] 1", "[0][1] 2", "[1][0] 3", "[1][1] {4: 4, 5: 5}"]
    );
    // A node without children may be a leaf as well, and `None` with it.
    let tree = integers(&tree!({"a": 1, "b": [(), {}, None], "c": Point(x = [], y = 2)}));
    let cut = tree.cut(|subtree| subtree.root().num_children() == 0);
    assert_eq!(
        cut.map(ToString::to_string).leaves(),
        ["1", "()", "{}", "None", "[]", "2"]
    );
    assert_eq!(cut.treedef().leaf_paths().last(), Some(&path("['c'].y")));
}

#[test]
fn several_trees_are_mapped_with_their_paths() {
    let left = integers(&tree!([{"k": [1, 4], "n": None}, 5]));
    let right = left.map(|leaf| 10 * leaf);
    let shown = paths_of(&left)
        .broadcast_map(&[left, right], |path, leaves| {
            format!("{path}: {}", leaves[0] + leaves[1])
        })
        .unwrap();
    assert_eq!(
        shown.leaves(),
        ["[0]['k'][0]: 11", "[0]['k'][1]: 44", "[1]: 55"]
    );
    assert_eq!(
        shown.treedef().to_string(),
        "PyTreeDef([{'k': [*, *], 'n': None}, *])"
    );
}

/// The leaves of two trees may be chosen before they are mapped together: the one is cut, and then a prefix.
#[test]
fn map_with_follows_leaves_of_cut_tree() {
    let left = integers(&tree!(((1, 2), [3, 4, 5])));
    let right = integers(&tree!((([3], None), ({"k": 6}, 7, [5, 6]))));
    let shown = left
        .cut(|subtree| subtree.kind() == NodeKind::List)
        .map_with(&[right], |leaf, rest| format!("{leaf} {}", rest[0]))
        .unwrap();
    assert_eq!(
        shown.leaves(),
        ["1 [3]", "2 None", "[3, 4, 5] ({'k': 6}, 7, [5, 6])"]
    );
}

#[test]
fn cut_tree_is_reduced() {
    let tree = integers(&tree!([(1, 2), [(3, 4), (5, 6), None]]));
    let cut = tree.cut(|subtree| subtree.kind() == NodeKind::Tuple);
    let cut = cut.map(|tuple| tuple.leaves().to_vec());
    assert_eq!(
        cut.reduce(vec![0], |all, tuple| [all, tuple.clone()].concat()),
        [0, 1, 2, 3, 4, 5, 6]
    );
    let balanced = cut.reduce_associative(|left, right| [left, right].concat());
    assert_eq!(balanced, Some(vec![1, 2, 3, 4, 5, 6]));
    assert!(cut.all(|tuple| tuple.len() == 2));
}

/// Keys of different sorts are different, though they may be written with the same letters.
#[test]
fn paths_with_equal_keys_are_equal() {
    let texts = [
        "x[1]", "x['1']", "x.1", "x[1][1]", "x", "['x'][1]", "[-1]", "",
    ];
    let paths: Vec<KeyPath> = texts.iter().map(|text| path(text)).collect();
    let all: HashSet<KeyPath> = paths.iter().cloned().collect();
    assert_eq!(all.len(), texts.len());
    for (text, found) in texts.iter().zip(&paths) {
        assert_eq!(found.to_string(), *text);
        let again: KeyPath = found.keys().iter().cloned().collect();
        assert_eq!(again, *found);
        assert!(all.contains(&again));
    }
    assert_eq!(paths[0].keys()[1].to_string(), "[1]");
    assert_eq!(paths[1].keys()[1].to_string(), "['1']");
    assert_eq!(paths[2].keys()[1].to_string(), ".1");
}

#[test]
fn result_of_map_is_transposed() {
    let tree = integers(&tree!({"b": (1, [2]), "a": 3, "n": None}));
    let made = tree.map(|leaf| integers(&tree!({"same": *leaf, "double": (2 * leaf,)})));
    let inside_out = made.join().transpose(tree.treedef(), None).unwrap();
    assert_eq!(
        inside_out.to_string(),
        "{'double': ({'a': 6, 'b': (2, [4]), 'n': None},), 'same': {'a': 3, 'b': (1, [2]), 'n': None}}"
    );
}

#[test]
fn leaves_are_changed_in_place() {
    let mut tree = integers(&tree!(ordered {"b": [1, 2], "a": (3, None)}));
    let treedef = tree.treedef().clone();
    for leaf in tree.leaves_mut() {
        *leaf *= 10;
    }
    assert_eq!(
        tree.to_string(),
        "OrderedDict({'b': [10, 20], 'a': (30, None)})"
    );
    assert_eq!(*tree.treedef(), treedef);
}

#[test]
fn leaves_have_maximum_minimum_and_sum() {
    let tree = integers(&tree!({"x": 0, "y": (2, 1), "z": None}));
    assert_eq!(tree.leaves().iter().max(), Some(&2));
    assert_eq!(tree.leaves().iter().min(), Some(&0));
    assert_eq!(tree.leaves().iter().max_by_key(|leaf| -**leaf), Some(&0));
    assert_eq!(tree.leaves().iter().sum::<i64>(), 3);
    assert_eq!(tree.reduce_without_start(|a, b| a.max(*b)), Some(2));
    let texts = tree.map(|leaf| leaf.to_string());
    assert_eq!(
        texts.reduce(String::from(">"), |text, leaf| text + leaf),
        ">021"
    );
    // A tree without leaves has none, unless `None` is a leaf, which is less than any other.
    let empty = integers(&tree!({"a": None}));
    assert_eq!(empty.leaves().iter().max(), None);
    assert_eq!(empty.reduce_without_start(|a, b| a.max(*b)), None);
    assert_eq!(
        empty.clone().none_as_leaves().leaves().iter().max(),
        Some(&None)
    );
    assert!(!empty.none_as_leaves().all(Option::is_some));
    assert!(!tree.clone().none_as_leaves().all(Option::is_some));
    assert!(
        tree.none_as_leaves()
            .any(|leaf| leaf.is_some_and(|leaf| leaf > 1))
    );
}

/// A structure is rebuilt from the leaves up, with other nodes and other leaves.
#[test]
fn structure_is_transformed_node_by_node() {
    let treedef = tree!(((1, 2, 3), (4,))).treedef().clone();
    let transformed = |leaf: &TreeDef, node: fn(Vec<TreeDef>) -> TreeDef| {
        let leaves = vec![leaf.clone(); treedef.num_leaves()];
        treedef.fold(leaves, |_, children| node(children)).unwrap()
    };
    let leaf = TreeDef::leaf();
    assert_eq!(transformed(&leaf, TreeDef::tuple), treedef);
    assert_eq!(
        transformed(&leaf, TreeDef::list),
        *tree!([[1, 2, 3], [4]]).treedef()
    );
    let inner = tree!([0, None, 1]).treedef().clone();
    assert_eq!(transformed(&inner, TreeDef::tuple), treedef.compose(&inner));
    // Named by letters.
    let trees = vec![Tree::leaf(()); 4];
    let named = treedef.fold(trees, |_, children| {
        Tree::dict(["a", "b", "c"].into_iter().zip(children).collect())
    });
    assert_eq!(
        named.unwrap().treedef().to_string(),
        "PyTreeDef({'a': {'a': *, 'b': *, 'c': *}, 'b': {'a': *}})"
    );
}

/// A structure is its first level, with the structures of the children at the leaves.
#[test]
fn structure_is_rebuilt_from_children() {
    for tree in [
        tree!([1, (2, 3), None]),
        tree!({"b": [1], "a": {"c": 2}}),
        tree!(ordered {"b": 1, "a": (2,)}),
        tree!(Point(x = [1], y = 2)),
        tree!(()),
    ] {
        let treedef = tree.treedef();
        let level = tree.cut(|subtree| subtree.path() != KeyPath::root());
        let level = level.treedef();
        assert_eq!(level.num_children(), treedef.num_children());
        assert_eq!(level.num_leaves(), treedef.num_children());
        assert_eq!(level.num_nodes(), treedef.num_children() + 1);
        assert!(level.is_prefix_of(treedef));
        assert!(level <= treedef);
        let keys =
            |treedef: &TreeDef| -> Vec<_> { treedef.nodes().next().unwrap().keys().collect() };
        assert_eq!(keys(level), keys(treedef));
        let children = Tree::new(level.clone(), treedef.children()).unwrap();
        let children =
            children.map(|child| Tree::new(child.clone(), vec![(); child.num_leaves()]).unwrap());
        assert_eq!(children.join().treedef(), treedef);
    }
}

/// Texts of keys are reported unchanged, whatever they contain.
#[test]
fn keys_with_braces_are_reported_unchanged() {
    let reported = |prefix: Tree, full: Tree| -> Vec<String> {
        let found = prefix.treedef().prefix_differences(full.treedef());
        found.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        reported(tree!({"{oops}": {}}), tree!({})),
        ["keys at the root: ['{oops}'] against []; '{oops}' is missing"]
    );
    assert_eq!(
        reported(tree!({"{oops}": []}), tree!({"{oops}": [{}]})),
        ["number of children at ['{oops}']: 0 against 1"]
    );
    assert_eq!(
        reported(tree!({"{oops}": {}}), tree!({"{oops}": 1})),
        ["node type at ['{oops}']: a dict of 0 against a leaf"]
    );
    assert_eq!(
        reported(tree!({"{oops}": {"{a}": 1}}), tree!({"{oops}": {"{b}": 1}})),
        ["keys at ['{oops}']: ['{a}'] against ['{b}']; '{a}' is missing, '{b}' is unexpected"]
    );
}

/// Keys without an order are reported in the order of the dictionary.
#[test]
fn mixed_keys_are_reported_in_order() {
    let found = tree!({"a": 2, 1: 1})
        .treedef()
        .prefix_differences(tree!({"b": 4, 2: 3}).treedef());
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["keys at the root: [1, 'a'] against [2, 'b']; 1, 'a' are missing, 2, 'b' are unexpected"]
    );
}

#[test]
fn splitting_leafless_tree_copies_it() {
    for tree in [
        tree!(()),
        tree!([]),
        tree!({}),
        tree!({"a": [], "b": ()}),
        tree!([(), {}]),
        tree!({"a": None}),
    ] {
        let tree = integers(&tree);
        let never = Filter::predicate(|_, _| panic!("the predicate needs no leaf"));
        let [left, right] = partition::split(&tree, [never, Filter::everything()]).unwrap();
        assert_eq!(left.tree(), &tree);
        assert_eq!(right.tree(), &tree);
        let whole: Tree<i64> = partition::merge([left, right]).unwrap();
        assert_eq!(whole, tree);
    }
}

/// To take a part and to put into a tuple are done in any order.
#[test]
fn part_of_tuple_is_tuple_of_parts() {
    let left = integers(&tree!({"a": 0, "b": 1}));
    let right = integers(&tree!({"c": 2, "d": 3, "e": 4}));
    let odd = || {
        Filter::predicate(|_, leaf| leaf.downcast_ref::<i64>().is_some_and(|leaf| leaf % 2 == 1))
    };
    let of = |tree: &Tree<i64>| partition::filter(tree, &odd()).into_tree();
    let both = of(&Tree::tuple(vec![left.clone(), right.clone()]));
    assert_eq!(both, Tree::tuple(vec![of(&left), of(&right)]));
    assert_eq!(
        both.to_string(),
        "({'a': -, 'b': 1}, {'c': -, 'd': 3, 'e': -})"
    );
}

/// The field of a node made at run time may have any name.
#[test]
fn unusual_field_names_are_found_by_path() {
    let tree = Tree::named_tuple("P", vec![("x-y", Tree::leaf(1)), ("z", Tree::leaf(2))]).unwrap();
    for (path, leaf) in tree.iter_with_path() {
        assert_eq!(tree.at(&path).unwrap().leaves(), [*leaf]);
        let again: KeyPath = path.to_string().parse().unwrap();
        assert_eq!(tree.get(&again).unwrap(), leaf);
    }
}
