//! Treedefs made of treedefs, and what they show of their nodes.

use pytree_core::shape::NodeKind;
use pytree_core::{TreeDef, TreeError, graph, tree};

use crate::trees::path;

#[test]
fn treedefs_are_composed_of_treedefs() {
    let treedef = TreeDef::list(vec![
        TreeDef::leaf(),
        TreeDef::tuple(vec![TreeDef::leaf(), TreeDef::none()]),
        TreeDef::list(Vec::new()),
    ]);
    assert_eq!(treedef, *tree!([1, (2, None), []]).treedef());
    assert_eq!(treedef.to_string(), "PyTreeDef([*, (*, None), []])");
    assert_eq!(treedef.num_leaves(), 2);
    assert_eq!(treedef.num_nodes(), 6);
}

#[test]
fn children_are_found_by_position() {
    let tree = tree!({"b": (1, 2), "a": 3});
    let treedef = tree.treedef();
    assert_eq!(treedef.num_children(), 2);
    assert_eq!(treedef.child(0), Some(TreeDef::leaf()));
    assert_eq!(treedef.child(1).unwrap().to_string(), "PyTreeDef((*, *))");
    assert_eq!(treedef.child(2), None);
    assert_eq!(TreeDef::leaf().num_children(), 0);
    assert_eq!(TreeDef::leaf().child(0), None);
}

#[test]
fn composing_keeps_keys_and_static_values_of_both() {
    let outer = tree!({"b": 1, "a": {"z": 2, "y": 3}});
    let inner = tree!(ordered {"q": 1, "p": (2, None)});
    let composed = outer.treedef().compose(inner.treedef());
    let inside = "CustomNode(OrderedDict[('q', 'p')], [*, (*, None)])";
    assert_eq!(
        composed.to_string(),
        format!("PyTreeDef({{'a': {{'y': {inside}, 'z': {inside}}}, 'b': {inside}}})")
    );
    let filled = tree!({"b": ordered {"q": 1, "p": (2, None)}, "a": {
        "z": ordered {"q": 1, "p": (2, None)},
        "y": ordered {"q": 1, "p": (2, None)},
    }});
    assert_eq!(composed, *filled.treedef());
    assert_eq!(composed.child(0).unwrap().num_nodes(), 11);
}

#[test]
fn nodes_are_shown_in_preorder() {
    let tree = tree!([{"b": 1, "a": (2, None)}, Some(3)]);
    let shown: Vec<String> = tree
        .treedef()
        .nodes()
        .map(|node| {
            format!(
                "{} {} {} {:?}",
                node.name(),
                node.num_children(),
                node.num_leaves(),
                node.path().to_string()
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            r#"list 2 3 """#,
            r#"dict 2 2 "[0]""#,
            r#"tuple 2 1 "[0]['a']""#,
            r#"leaf 0 1 "[0]['a'][0]""#,
            r#"None 0 0 "[0]['a'][1]""#,
            r#"leaf 0 1 "[0]['b']""#,
            r#"Some 1 1 "[1]""#,
            r#"leaf 0 1 "[1]""#,
        ]
    );
    assert_eq!(tree.treedef().nodes().len(), 8);
}

#[test]
fn node_has_kind_keys_and_subtree() {
    let tree = tree!([{"b": 1, 3: 2}, Some(3)]);
    let nodes: Vec<_> = tree.treedef().nodes().collect();
    assert_eq!(nodes[0].kind(), NodeKind::List);
    let keys = |node: usize| -> Vec<Option<String>> {
        nodes[node]
            .keys()
            .map(|key| key.map(|key| key.to_string()))
            .collect()
    };
    assert_eq!(keys(0), [Some("[0]".to_owned()), Some("[1]".to_owned())]);
    assert_eq!(keys(1), [Some("[3]".to_owned()), Some("['b']".to_owned())]);
    assert_eq!(keys(4), [None]);
    assert_eq!(keys(2), []);
    assert_eq!(nodes[1].to_treedef(), *tree!({"b": 1, 3: 2}).treedef());
    assert_eq!(nodes[1].statics().count(), 0);
    assert_eq!(nodes[1].shape().kind(), NodeKind::Dict);
}

#[test]
fn node_is_described() {
    let tree = tree!([{"b": 1}, (), ordered {"a": 1}, Point(x = 1, y = 2), None]);
    let described: Vec<String> = tree
        .treedef()
        .nodes()
        .map(|node| format!("{node:?}"))
        .collect();
    assert_eq!(
        described,
        [
            "a list of 5",
            "a dict of 1",
            "a leaf",
            "a tuple of 0",
            "an OrderedDict of 1",
            "a leaf",
            "`Point` of (x, y)",
            "a leaf",
            "a leaf",
            "`None`",
        ]
    );
}

#[test]
fn fold_visits_leaves_first() {
    let tree = tree!([1, {"b": 2, "a": None}, Some(3)]);
    let text = tree
        .treedef()
        .fold(["x", "y", "z"].map(str::to_owned), |node, children| {
            format!("{}({})", node.name(), children.join(" "))
        });
    assert_eq!(text.unwrap(), "list(x dict(None() y) Some(z))");
    assert_eq!(TreeDef::leaf().fold([7], |_, _| 0).unwrap(), 7);
}

#[test]
fn fold_rejects_wrong_number_of_leaves() {
    let tree = tree!([1, (2, 3)]);
    for (given, missing) in [(vec![1, 2], Some("[1][1]")), (vec![1, 2, 3, 4], None)] {
        let mut called = false;
        let found = given.len();
        let error = tree.treedef().fold(given, |_, _| {
            called = true;
            0
        });
        assert!(!called);
        assert_eq!(
            error.unwrap_err(),
            TreeError::LeafCount {
                doing: "cannot fold",
                expected: 3,
                found,
                first_missing: missing.map(path),
            }
        );
    }
}

#[test]
fn value_is_flattened_by_one_level() {
    let value = (vec![1_i64, 2], Some(3.5_f64));
    let children = tree::flatten_one_level(&value).unwrap();
    let shown: Vec<String> = children
        .iter()
        .map(|(key, child)| format!("{} {child}", key.as_ref().unwrap()))
        .collect();
    assert_eq!(shown, ["[0] [1, 2]", "[1] 3.5"]);
    let some = tree::flatten_one_level(&Some(1_i64)).unwrap();
    assert_eq!((some.len(), &some[0].0), (1, &None));
    assert_eq!(graph::flatten_one_level(&None::<i64>).unwrap().len(), 0);
    assert!(tree::flatten_one_level(&1_i64).is_none());
}

/// A value that shows nothing at all: no tree, and no reason to panic.
#[derive(Clone)]
struct Nothing;
impl pytree_core::Pytree for Nothing {
    fn visit<'a>(&'a self, _: &mut dyn pytree_core::Visitor<'a>) {}
    fn unflatten(_: &mut pytree_core::Unflattener<'_>) -> Result<Self, TreeError> {
        Ok(Self)
    }
}

#[test]
fn treedef_without_nodes_does_not_panic() {
    let tree = pytree_core::Tree::of(&Nothing).map(|_| 0_i64);
    let treedef = tree.treedef();
    assert_eq!(treedef.num_nodes(), 0);
    assert_eq!((treedef.num_children(), treedef.child(0)), (0, None));
    assert_eq!(
        treedef
            .fold(Vec::<i64>::new(), |_, _| 0)
            .unwrap_err()
            .to_string(),
        "cannot build a value: the treedef has no nodes"
    );
    let root = tree.root();
    assert_eq!(
        (
            root.num_leaves(),
            root.leaves().len(),
            root.children().count()
        ),
        (0, 0, 0)
    );
    assert_eq!(
        (root.root().statics().count(), root.root().keys().count()),
        (0, 0)
    );
    assert_eq!(root.path(), path(""));
    assert_eq!(root.to_tree(), tree);
    assert_eq!(tree.cut(|_| true).join(), tree);
    assert!(tree.at(&path("[0]")).is_err());
    assert!(treedef.is_prefix_of(treedef));
    assert!(!treedef.is_prefix_of(&TreeDef::leaf()));
    assert!(!TreeDef::leaf().is_prefix_of(treedef));
    assert_eq!(treedef.prefix_differences(&TreeDef::leaf()).len(), 1);
    assert_eq!(TreeDef::leaf().prefix_differences(treedef).len(), 1);
    assert!(TreeDef::leaf().flatten_up_to(&tree).is_err());
    assert!(pytree_core::Tree::leaf(1).broadcast_to(treedef).is_err());
    let suffix = |left: &TreeDef, right: &TreeDef| left.broadcast_to_common_suffix(right);
    for other in [TreeDef::leaf(), TreeDef::list(vec![TreeDef::leaf()])] {
        assert!(suffix(treedef, &other).is_err());
        assert!(suffix(&other, treedef).is_err());
    }
    assert_eq!(suffix(treedef, treedef).unwrap(), *treedef);
}
