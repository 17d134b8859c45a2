//! Trees whose leaves are options: what every tree has, with `None` as a leaf.

use ndarray::{Array1, array};
use pytree_core::{AnyLeaf, Leaf, Pytree, Tree, TreeError, diff, lint, tree};

use crate::trees::{integers, path};

fn sample() -> Tree<Option<i64>> {
    integers(&tree!([1, None, {"a": (None, 2)}])).none_as_leaves()
}

#[test]
fn optional_leaves_display_as_leaves() {
    assert_eq!(sample().to_string(), "[1, None, {'a': (None, 2)}]");
    assert_eq!(
        sample().treedef().to_string(),
        "PyTreeDef([*, *, {'a': (*, *)}])"
    );
    let texts = sample().map(|leaf| leaf.map(|leaf| format!("t{leaf}")));
    assert_eq!(texts.to_string(), "['t1', None, {'a': (None, 't2')}]");
    // As in Python, however deep the options are.
    let doubled = sample().map(|leaf| leaf.map(Some));
    assert_eq!(doubled.to_string(), "[1, None, {'a': (None, 2)}]");
    assert_eq!(
        format!("{:?}", sample()),
        "[Some(1), None, {'a': (None, Some(2))}]"
    );
}

#[test]
fn trees_of_optional_leaves_are_pytrees() {
    let tree = sample();
    let (leaves, treedef) = tree::flatten(&tree);
    assert_eq!(leaves, [Some(1), None, None, Some(2)]);
    assert_eq!(treedef, *tree.treedef());
    assert_eq!(
        tree::unflatten::<Tree<Option<i64>>, _>(&treedef, leaves).unwrap(),
        tree
    );
    let filled = tree::map(&tree, |leaf: &Option<i64>| leaf.or(Some(0)));
    assert_eq!(filled.leaves(), [Some(1), Some(0), Some(0), Some(2)]);
    assert_eq!(tree::leaves_with_path(&tree)[1], (path("[1]"), &None));
    let value: Vec<Tree<Option<i64>>> = vec![tree.clone(), tree.clone()];
    assert_eq!(Tree::from_value(&value).leaves().len(), 8);
}

#[test]
fn options_are_leaves_in_mixed_trees() {
    let any = Tree::of(&sample());
    assert_eq!(any.to_string(), "[1, None, {'a': (None, 2)}]");
    assert_eq!(
        any.leaves()[0].downcast_ref::<Option<i64>>(),
        Some(&Some(1))
    );
    assert_eq!(any.leaves()[0].downcast_ref::<i64>(), None);
    assert_eq!(any.to_value::<Tree<Option<i64>>>().unwrap(), sample());
    assert_eq!(any.leaves()[1].clone().to_string(), "None");
    // A leaf that is an option is no node that is one.
    let error = any.to_value::<Tree<i64>>().unwrap_err();
    let TreeError::LeafTypes { mismatches, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(mismatches[0].path, path("[0]"));
    assert_eq!(mismatches[0].expected, "i64");
    assert_eq!(mismatches[0].found, "Option<i64>");
}

#[test]
fn absent_leaf_of_prefix_matches_subtree() {
    let prefix = integers(&tree!([(1, 2), None, Point(x = 3, y = 7)])).none_as_leaves();
    let full = integers(&tree!([({"k": 7}, (3, 4)), [5, None], Point(x = (11, 9), y = None)]));
    let subtrees = prefix
        .treedef()
        .flatten_up_to(&full.clone().none_as_leaves())
        .unwrap();
    let shown: Vec<String> = subtrees.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["{'k': 7}", "(3, 4)", "[5, None]", "(11, 9)", "None"]
    );
    let spread = prefix
        .broadcast_to(full.none_as_leaves().treedef())
        .unwrap();
    assert_eq!(
        spread.to_string(),
        "[({'k': 1}, (2, 2)), [None, None], Point(x=(3, 3), y=7)]"
    );
    // As a node, `None` stands for itself only.
    let node = tree!([(1, 2), None, Point(x = 3, y = 7)]);
    let error = node.treedef().flatten_up_to(&sample()).unwrap_err();
    assert!(error.to_string().contains("node type at [0]"), "{error}");
}

#[test]
fn option_outside_of_leaf_trees_is_node() {
    let value = (Some(1_i64), None::<i64>);
    assert_eq!(tree::structure(&value).to_string(), "PyTreeDef((*, None))");
    assert_eq!(tree::leaves::<i64, _>(&value), [&1]);
    assert_eq!(tree!([Some(1), None]).treedef().num_leaves(), 1);
}

#[test]
fn optional_leaf_has_elements_of_content() {
    let some: Option<Array1<f32>> = Some(array![1.5, 2.5]);
    assert_eq!(some.array_info().unwrap().to_string(), "f32[2]");
    assert_eq!(some.values(), Some(vec![1.5, 2.5]));
    assert_eq!(
        some.type_name(),
        std::any::type_name::<Option<Array1<f32>>>()
    );
    let none: Option<Array1<f32>> = None;
    assert_eq!((none.array_info(), none.values()), (None, None));
    assert_eq!(
        (some.storage_identity(), none.storage_identity()),
        (None, None)
    );
    let mut leaf = AnyLeaf::new(some);
    assert_eq!(
        leaf.array_view::<f32>().unwrap(),
        array![1.5, 2.5].into_dyn()
    );
    assert!(leaf.array_view::<f64>().is_none());
    leaf.array_view_mut::<f32>().unwrap()[1] = 9.0;
    assert!(leaf.array_view_mut::<i64>().is_none());
    let held = leaf.downcast_ref::<Option<Array1<f32>>>();
    assert_eq!(held, Some(&Some(array![1.5, 9.0])));
    let mut leaf = AnyLeaf::new(none);
    assert!(leaf.array_view::<f32>().is_none());
    assert!(leaf.array_view_mut::<f32>().is_none());
    let mut number: Box<dyn Leaf> = Box::new(Some(Some(3_u8)));
    assert_eq!(number.array_view::<u8>().unwrap().sum(), 3);
    number.array_view_mut::<u8>().unwrap().fill(4);
    assert_eq!(
        number.downcast_ref::<Option<Option<u8>>>(),
        Some(&Some(Some(4)))
    );
    assert!(3_u8.inner().is_none() && 3_u8.inner_mut().is_none());
    let mut held: Box<dyn Leaf> = Box::new(Some(AnyLeaf::new(Some(3_u8))));
    assert_eq!(held.array_view::<u8>().unwrap().sum(), 3);
    held.array_view_mut::<u8>().unwrap().fill(4);
    assert_eq!(held.values(), Some(vec![4.0]));
}

#[derive(Clone, Debug, PartialEq, pytree_core::Leaf)]
struct Name(&'static str);

#[test]
fn leaves_of_any_type_may_be_missing() {
    let tree = Tree::list(vec![Tree::leaf(Some(Name("a"))), Tree::leaf(None)]);
    assert_eq!(tree.to_string(), "[Name(\"a\"), None]");
    assert_eq!(tree::structure(&tree), *tree.treedef());
}

#[test]
fn models_of_optional_leaves_are_compared() {
    let with = |leaf: Option<i64>| Tree::list(vec![Tree::leaf(Some(7_i64)), Tree::leaf(leaf)]);
    assert!(diff(&with(Some(1)), &with(Some(1))).is_empty());
    assert!(diff(&with(None), &with(None)).is_empty());
    let large = 1_i64 << 60;
    for (left, right) in [
        (Some(1), Some(2)),
        (Some(1), None),
        (None, Some(1)),
        (Some(large), Some(large + 1)),
    ] {
        let found = diff(&with(left), &with(right));
        assert_eq!(found.leaves().len(), 1, "{left:?} {right:?}");
        assert_eq!(found.leaves()[0].path, path("[1]"));
    }
    let tree = Tree::tuple(vec![
        Tree::leaf(Some(f64::NAN)),
        Tree::leaf(None),
        Tree::leaf(Some(1.0)),
    ]);
    let reported: Vec<String> = lint(&tree).iter().map(ToString::to_string).collect();
    assert!(
        reported
            .iter()
            .any(|finding| finding.contains("not finite") && finding.contains("[0]")),
        "{reported:?}"
    );
    let shown: Vec<&dyn Leaf> = tree::any_leaves(&tree);
    assert_eq!(shown.len(), 3);
    fn is_pytree<T: Pytree>(_: &T) {}
    is_pytree(&tree);
}
