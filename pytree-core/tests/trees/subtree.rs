//! Subtrees, cuts, and `None` as a leaf.

use pytree_core::shape::NodeKind;
use pytree_core::{KeyPath, Shared, Tree, TreeError, graph, tree};

use crate::trees::{integers, path};

fn sample() -> Tree<i64> {
    integers(&tree!({"a": [1, (2, 3)], "b": Point(x = 4, y = {"k": 5}), "c": 6}))
}

#[test]
fn subtree_has_kind_leaves_and_path() {
    let tree = sample();
    let found = tree.at(&path("['a'][1]")).unwrap();
    assert_eq!((found.kind(), found.name()), (NodeKind::Tuple, "tuple"));
    assert_eq!((found.num_leaves(), found.leaves()), (2, &[2, 3][..]));
    assert_eq!(found.path(), path("['a'][1]"));
    assert!(!found.is_leaf());
    assert_eq!(found.to_tree(), integers(&tree!((2, 3))));
    assert_eq!(found.treedef(), *tree!((2, 3)).treedef());
    assert_eq!(tree.at(&path("['b'].y['k']")).unwrap().leaves(), [5]);
    assert!(tree.at(&path("['c']")).unwrap().is_leaf());
    assert_eq!(tree.at(&KeyPath::root()).unwrap().to_tree(), tree);
}

#[test]
fn children_of_subtree_have_its_leaves() {
    let tree = sample();
    let root = tree.root();
    let leaves: Vec<&[i64]> = root.children().map(|child| child.leaves()).collect();
    assert_eq!(leaves, [&[1, 2, 3][..], &[4, 5], &[6]]);
    let second = root.children().nth(1).unwrap();
    let grandchildren: Vec<String> = second
        .children()
        .map(|child| child.path().to_string())
        .collect();
    assert_eq!(grandchildren, ["['b'].x", "['b'].y"]);
    assert_eq!(root.children().last().unwrap().children().count(), 0);
    let names: Vec<Option<String>> = second
        .root()
        .keys()
        .map(|key| key.map(|key| key.to_string()))
        .collect();
    assert_eq!(names, [Some(".x".to_owned()), Some(".y".to_owned())]);
    let [copy, _] = [second; 2];
    assert_eq!(copy.name(), "Point");
}

#[test]
fn paths_lead_through_some() {
    let tree = tree!([Some([1, 2]), 3]);
    assert_eq!(tree.at(&path("[0]")).unwrap().kind(), NodeKind::Some);
    assert_eq!(tree.at(&path("[0][1]")).unwrap().leaves().len(), 1);
    assert_eq!(tree.at(&path("[1]")).unwrap().to_tree().to_string(), "3");
}

#[test]
fn missing_subtree_path_is_reported() {
    let tree = sample();
    let reported = |text: &str| tree.at(&path(text)).unwrap_err().to_string();
    assert_eq!(
        tree.at(&path("['b'].z[1]")).unwrap_err(),
        TreeError::NoSubtree {
            path: path("['b'].z[1]"),
            reached: path("['b']"),
            found: "`Point` of (x, y)".to_owned(),
            nearest: Some(path("['b'].x")),
        }
    );
    assert_eq!(
        reported("['a'][1][2]"),
        "no subtree at ['a'][1][2]: ['a'][1] is a tuple of 2; did you mean `['a'][1][0]`?"
    );
    assert_eq!(
        reported("['c'][0]"),
        "no subtree at ['c'][0]: ['c'] is a leaf"
    );
    assert_eq!(
        reported("['bb']"),
        "no subtree at ['bb']: the root is a dict of 3; did you mean `['b']`?"
    );
}

#[test]
fn cut_does_not_ask_below_cut_subtrees() {
    let tree = sample();
    let mut asked = Vec::new();
    let cut = tree.cut(|subtree| {
        asked.push(subtree.path().to_string());
        subtree.kind() == NodeKind::NamedTuple
    });
    assert_eq!(asked, ["", "['a']", "['a'][1]", "['b']"]);
    assert_eq!(
        cut.treedef().to_string(),
        "PyTreeDef({'a': [*, (*, *)], 'b': *, 'c': *})"
    );
    let sizes: Vec<usize> = cut
        .leaves()
        .iter()
        .map(|subtree| subtree.leaves().len())
        .collect();
    assert_eq!(sizes, [1, 1, 1, 2, 1]);
    assert_eq!(cut.leaves()[3].treedef().kind(), NodeKind::NamedTuple);
    assert_eq!(cut.join(), tree);
}

#[test]
fn cut_tree_can_be_cut_again() {
    let tree = sample();
    let cut = tree.cut(|subtree| subtree.leaves() == [2, 3] || subtree.leaves() == [5]);
    assert_eq!(
        cut.treedef().to_string(),
        "PyTreeDef({'a': [*, *], 'b': CustomNode(namedtuple[Point], [*, *]), 'c': *})"
    );
    let shown: Vec<String> = cut.leaves().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["1", "(2, 3)", "4", "{'k': 5}", "6"]);
}

#[test]
fn join_accepts_replaced_subtrees() {
    let cut = sample().cut(|subtree| subtree.kind() != NodeKind::Dict);
    let replaced =
        cut.map(|subtree| Tree::list(vec![Tree::leaf(subtree.leaves().len()), Tree::none()]));
    assert_eq!(
        replaced.join().to_string(),
        "{'a': [3, None], 'b': [2, None], 'c': [1, None]}"
    );
}

#[test]
fn root_can_be_cut() {
    let tree = sample();
    let cut = tree.cut(|_| true);
    assert_eq!(cut.treedef().to_string(), "PyTreeDef(*)");
    assert_eq!(cut.leaves(), std::slice::from_ref(&tree));
    assert!(cut.is_leaf());
    assert!(!tree.is_leaf());
    let empty = Tree::<i64>::list(Vec::new());
    assert_eq!(empty.cut(|_| false).join(), empty);
    assert_eq!(empty.cut(|_| true).join(), empty);
    assert_eq!(empty.root().children().count(), 0);
    assert!(empty.root().leaves().is_empty());
}

#[test]
fn none_as_leaves_round_trips() {
    let tree = integers(&tree!([None, 1, {"a": None, "b": Some(2)}]));
    let with_leaves = tree.clone().none_as_leaves();
    assert_eq!(with_leaves.leaves(), [None, Some(1), None, Some(2)]);
    assert_eq!(
        with_leaves.treedef().to_string(),
        "PyTreeDef([*, *, {'a': *, 'b': *}])"
    );
    let filled = with_leaves.map(|leaf| leaf.map(|leaf| 10 * leaf).or(Some(0)));
    assert_eq!(
        filled.none_as_nodes(),
        integers(&tree!([0, 10, {"a": 0, "b": Some(20)}]))
    );
    let emptied = with_leaves.map(|leaf| leaf.filter(|&leaf| leaf == 1));
    assert_eq!(
        emptied.none_as_nodes().to_string(),
        "[None, 1, {'a': None, 'b': None}]"
    );
    assert_eq!(with_leaves.none_as_nodes(), tree);
}

#[test]
fn typed_values_are_cut() {
    let value = (vec![1_i64, 2], vec![vec![3_i64]]);
    let inner = |subtree: &pytree_core::Subtree<'_, i64>| {
        subtree.kind() == NodeKind::List && subtree.children().all(|child| child.is_leaf())
    };
    let found = tree::leaves_where(&value, inner);
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["[1, 2]", "[3]"]);
    let sums = graph::map_subtrees(&value, inner, |subtree| {
        subtree.leaves().iter().sum::<i64>()
    });
    assert_eq!(sums.to_string(), "(3, [3])");
}

#[test]
fn child_of_transparent_node_has_no_key() {
    let children = integers(&tree!(Some((1, 2)))).flatten_one_level().unwrap();
    assert_eq!(children, [(None, integers(&tree!((1, 2))))]);
}

#[test]
fn paths_lead_through_some_at_any_place() {
    let pair = || Tree::tuple(vec![Tree::leaf(5), Tree::leaf(6)]);
    let some =
        |tree: Tree<i32>| Tree::of(&Some(tree)).map(|leaf| *leaf.downcast_ref::<i32>().unwrap());
    let tree = Tree::list(vec![Tree::leaf(4), some(pair())]);
    assert_eq!(tree.at(&path("[1][1]")).unwrap().leaves(), [6]);
    assert_eq!(tree.at(&path("[1]")).unwrap().leaves(), [5, 6]);
    assert_eq!(some(pair()).at(&path("[1]")).unwrap().leaves(), [6]);
}

#[test]
fn cut_tree_is_ordinary_tree() {
    let tree = integers(&tree!([(1, 2), [3, (4,)], 5]));
    let cut = tree.cut(|subtree| subtree.num_leaves() == 1);
    assert_eq!(cut.treedef(), tree!([(1, 2), [3, 4], 5]).treedef());
    let children: Vec<String> = cut
        .treedef()
        .children()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        children,
        ["PyTreeDef((*, *))", "PyTreeDef([*, *])", "PyTreeDef(*)"]
    );
    assert_eq!(
        cut.at(&path("[1][1]")).unwrap().leaves()[0].to_string(),
        "(4,)"
    );
    assert_eq!(cut.at(&path("[2]")).unwrap().leaves()[0].to_string(), "5");
}

#[test]
fn aliases_out_of_cut_lose_targets() {
    let (first, second) = (Shared::new(1_i64), Shared::new(2));
    let value = (
        [first.clone()],
        second.clone(),
        (second.clone(), first.clone()),
    );
    let (leaves, treedef) = graph::flatten::<i64, _>(&value);
    let tree = Tree::new(treedef, leaves).unwrap();
    assert_eq!(
        tree.treedef().to_string(),
        "PyTreeDef(([*], *, (alias 1, alias 0)))"
    );
    let cut = tree.cut(|subtree| subtree.kind() == NodeKind::List);
    assert_eq!(
        cut.treedef().to_string(),
        "PyTreeDef((*, *, (alias 0, alias of nothing)))"
    );
    assert_eq!(
        cut.join().treedef().to_string(),
        "PyTreeDef(([*], *, (alias 1, alias of nothing)))"
    );
    let cut = tree.cut(|subtree| subtree.kind() == NodeKind::Shared);
    assert_eq!(
        cut.join().treedef().to_string(),
        "PyTreeDef(([*], *, (alias of nothing, alias of nothing)))"
    );
    // No alias leads out of a leaf.
    let cut = tree.cut(|subtree| subtree.is_leaf());
    assert_eq!(cut.join(), tree);
}

#[test]
fn composed_aliases_lead_to_the_same_nodes() {
    let (outer, inner) = (Shared::new(1_i64), Shared::new(2_i64));
    let outer = graph::structure(&(0_i64, outer.clone(), outer));
    let inner = graph::structure(&(inner.clone(), inner));
    assert_eq!(outer.to_string(), "PyTreeDef((*, *, alias 0))");
    assert_eq!(
        outer.compose(&inner).to_string(),
        "PyTreeDef(((*, alias 0), (*, alias 2), alias 1))"
    );
}
