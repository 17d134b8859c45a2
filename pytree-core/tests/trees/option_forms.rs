//! Options of Rust against trees of Python's form, which have no `Some`: an optional value is the value itself or
//! `None`.

use pytree_core::{Module, Shared, Tree, TreeError, WeakShared, graph, tree};

use crate::trees::integers;

type Nested = (Option<i64>, Vec<Option<(i64, Option<i64>)>>);

fn nested() -> Nested {
    (Some(1), vec![None, Some((2, None)), Some((3, Some(4)))])
}

fn plain() -> Tree<i64> {
    integers(&tree!((1, [None, (2, None), (3, 4)])))
}

#[test]
fn both_forms_become_the_same_value() {
    assert_eq!(plain().to_value::<Nested>().unwrap(), nested());
    let own: Tree<i64> = Tree::from_value(&nested());
    assert_ne!(own, plain());
    assert_eq!(own.to_value::<Nested>().unwrap(), nested());
    assert_eq!(own.without_some(), plain());
    assert_eq!(plain().without_some(), plain());
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Layer {
    #[param]
    weight: f64,
    #[param]
    bias: Option<f64>,
}

#[test]
fn option_of_module_accepts_module() {
    let layer = Layer {
        weight: 1.0,
        bias: Some(2.0),
    };
    let tree: Tree<f64> = Tree::from_value(&layer);
    assert_eq!(
        tree.to_value::<Option<Layer>>().unwrap(),
        Some(layer.clone())
    );
    let tree = tree.without_some();
    assert_eq!(tree.to_value::<Layer>().unwrap(), layer);
    assert_eq!(tree.treedef().num_nodes(), 3);
}

#[test]
fn some_of_none_keeps_its_node() {
    let value = vec![Some(None), None, Some(Some(3_i64))];
    let tree: Tree<i64> = Tree::from_value(&value);
    let plain = tree.clone().without_some();
    assert_eq!(plain.to_value::<Vec<Option<Option<i64>>>>().unwrap(), value);
    let flat = vec![None::<Option<i64>>, None, Some(Some(3))];
    assert!(tree.map2(&Tree::from_value(&flat), |x, _| *x).is_err());
}

#[test]
fn map2_accepts_both_forms() {
    let added = |left: &i64, right: &i64| left + right;
    let own: Tree<i64> = Tree::from_value(&nested());
    let expected = integers(&tree!((2, [None, (4, None), (6, 8)])));
    assert_eq!(plain().map2(&own, added).unwrap(), expected);
    let mixed = own.map2(&plain(), added).unwrap();
    assert_eq!(mixed.treedef(), own.treedef());
    assert_eq!(mixed.leaves(), expected.leaves());
    let value: Nested = tree::map2(&nested(), &plain(), added).unwrap();
    assert_eq!(Tree::<i64>::from_value(&value), mixed);
    let value: Nested = graph::map2(&nested(), &plain(), added).unwrap();
    assert_eq!(Tree::<i64>::from_value(&value), mixed);
}

#[test]
fn map2_reports_only_other_differences() {
    let other = integers(&tree!((1, [None, (2, 5), (3, 4)])));
    let error = tree::map2(&nested(), &other, |x: &i64, _: &i64| *x).unwrap_err();
    let TreeError::Structure { differences, .. } = &error else {
        panic!("{error}");
    };
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["node type at [1][1][1]: `None` against a leaf"]);
    let error = integers(&tree!([{"a": 1}])).to_value::<Vec<Option<i64>>>();
    assert!(error.is_err());
}

#[test]
fn sharing_survives_without_some() {
    let node = Shared::new(7_i64);
    let value = (Some(node.clone()), vec![Some(node), None]);
    let (leaves, treedef) = graph::flatten::<i64, _>(&value);
    let plain = treedef.without_some();
    let (first, rest): (Option<Shared<i64>>, Vec<Option<Shared<i64>>>) =
        graph::unflatten(&plain, leaves).unwrap();
    assert!(first.unwrap().same(rest[0].as_ref().unwrap()));
    let empty: (Option<WeakShared<i64>>,) = (None,);
    assert_eq!(
        tree::structure(&empty).without_some(),
        tree::structure(&empty)
    );
}
