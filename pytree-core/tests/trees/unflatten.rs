//! What does not go together again is an error that says where and why.

use std::collections::BTreeMap;

use pytree_core::{AnyLeaf, Pytree, Tree, TreeError, Unflattener, Visitor, tree};

#[derive(Clone, Debug, PartialEq, Pytree)]
struct Mixed {
    first: f32,
    second: i32,
    third: f64,
}

#[test]
fn only_leaves_of_wrong_type_are_listed() {
    let mixed = Mixed {
        first: 1.0,
        second: 2,
        third: 3.0,
    };
    let treedef = tree::structure(&mixed);
    let leaves = vec![AnyLeaf::new("a"), AnyLeaf::new(2_i32), AnyLeaf::new(true)];
    assert_eq!(
        tree::unflatten::<Mixed, _>(&treedef, leaves)
            .unwrap_err()
            .to_string(),
        "cannot unflatten: 2 places:\n  at first: expected a leaf of type f32, found &str\n  at third: expected a leaf of type f64, found bool"
    );
}

#[test]
fn node_is_not_leaf() {
    let treedef = tree::structure(&(vec![1.0_f32],));
    assert_eq!(
        tree::unflatten::<(f32,), f32>(&treedef, vec![1.0]),
        Err(TreeError::NodeType {
            path: "[0]".parse().unwrap(),
            expected: "`f32`".into(),
            found: "a list".into(),
        })
    );
}

/// Fails with what an unflattening shows of itself.
#[derive(Debug)]
struct Shown;
impl Pytree for Shown {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.leaf(&1.0_f32);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Err(TreeError::Build {
            node: "value that shows what it is built from",
            reason: format!("{source:?}"),
        })
    }
}

#[test]
fn unflattener_debug_shows_treedef_and_position() {
    let error =
        tree::unflatten::<(f32, Shown), f32>(&tree::structure(&(1.0_f32, Shown)), vec![1.0, 2.0]);
    let Err(TreeError::Build { reason, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        reason,
        "Unflattener { treedef: PyTreeDef((*, *)), node: 2, .. }"
    );
}

#[test]
fn statics_after_dynamic_tree_are_read_correctly() {
    #[derive(Clone, Debug, PartialEq, Pytree)]
    struct Model {
        first: Tree<i32>,
        second: Tree<i32>,
        table: BTreeMap<String, i32>,
        #[r#static]
        name: String,
    }
    let dict = |key: &str| {
        Tree::dict(vec![
            (key.to_owned(), Tree::leaf(1)),
            ("z".into(), Tree::leaf(2)),
        ])
    };
    let model = Model {
        first: dict("a"),
        second: dict("b"),
        table: BTreeMap::from([("c".to_owned(), 3), ("d".to_owned(), 4)]),
        name: "model".into(),
    };
    let (leaves, treedef) = tree::flatten::<i32, _>(&model);
    assert_eq!(
        tree::unflatten::<Model, i32>(&treedef, leaves).unwrap(),
        model
    );
}
