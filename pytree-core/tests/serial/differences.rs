//! How two structures differ, all places at once.

use pytree_core::shape::{DynamicShape, NodeKind};
use pytree_core::{Module, Shared, StaticBox, Tree, TreeBuilder, graph, tree};

fn reported(left: &Tree, right: &Tree) -> Vec<String> {
    let differences = left.treedef().differences(right.treedef());
    differences.iter().map(ToString::to_string).collect()
}

#[test]
fn equal_structures_have_no_differences() {
    assert_eq!(
        reported(&tree!([1, {"a": 2}]), &tree!([3, {"a": "x"}])),
        [""; 0]
    );
}

#[test]
fn difference_has_path_and_both_sides() {
    let left = tree!([(1, 2), {"a": 1, "b": [1]}, None, [1, 2], {"k": 1}, [5, (6, 7)]]);
    let right = tree!([[1, 2], {"a": 1, "b": 2}, 3, [1, 2, 3], {"l": 1, "k": 1}, [5, (6, [7])]]);
    assert_eq!(
        reported(&left, &right),
        [
            "node type at [0]: a tuple of 2 against a list of 2",
            "node type at [1]['b']: a list of 1 against a leaf",
            "node type at [2]: `None` against a leaf",
            "number of children at [3]: 2 against 3",
            "keys at [4]: ['k'] against ['k', 'l']; 'l' is unexpected",
            "node type at [5][1][1]: a leaf against a list of 1",
        ]
    );
    assert_eq!(
        reported(&left, &tree!(1)),
        ["node type at the root: a list of 6 against a leaf"]
    );
}

#[test]
fn children_below_different_statics_are_compared() {
    #[derive(Module)]
    struct Node {
        #[param]
        inner: Tree<f32>,
        #[r#static]
        size: usize,
        #[r#static]
        name: &'static str,
    }
    let node = |inner, size, name| tree::structure(&Node { inner, size, name });
    let left = node(Tree::list(vec![Tree::leaf(1.0)]), 1, "a");
    let right = node(Tree::list(vec![Tree::none()]), 2, "b");
    let differences = left.differences(&right);
    let reported: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "static value at the root: size = 1 against size = 2",
            "static value at the root: name = 'a' against name = 'b'",
            "node type at inner[0]: a leaf against `None`",
        ]
    );
}

#[test]
fn nodes_with_one_name_are_told_apart() {
    let fields = || vec![("x", Tree::leaf(1)), ("y", Tree::leaf(2))];
    let tuple = Tree::named_tuple("Point", fields()).unwrap();
    let plain = Tree::named_struct("Point", fields(), Vec::new()).unwrap();
    let with_static = vec![("unit", StaticBox::new("m"))];
    let with_static = Tree::named_struct("Point", fields(), with_static).unwrap();
    let reported = |left: &Tree<i32>, right: &Tree<i32>| {
        let differences = left.treedef().differences(right.treedef());
        let prefix = left.treedef().prefix_differences(right.treedef());
        assert_eq!(differences, prefix);
        differences[0].to_string()
    };
    assert_eq!(
        reported(&tuple, &plain),
        "node type at the root: `Point(x, y)` against `Point { x, y }`"
    );
    assert_eq!(
        reported(&plain, &with_static),
        "node type at the root: `Point { x, y }` against `Point { x, y, unit = … }`"
    );
    let list = DynamicShape::new(NodeKind::List, "Point", &[], &[]).unwrap();
    let pair = DynamicShape::new(NodeKind::Tuple, "Point", &[], &[]).unwrap();
    let built = |shape| {
        TreeBuilder::new()
            .begin_shape(shape, Vec::new())
            .leaf(1)
            .end()
            .finish()
            .unwrap()
    };
    assert_eq!(
        reported(&built(list), &built(pair)),
        "node type at the root: `Point()`, a list against `Point()`, a tuple"
    );
}

#[test]
fn aliases_of_different_nodes_differ() {
    let (first, second) = (Shared::new(1.0_f32), Shared::new(2.0_f32));
    let left = graph::structure(&(first.clone(), second.clone(), first.clone()));
    let right = graph::structure(&(first, second.clone(), second));
    let differences = left.differences(&right);
    assert_eq!(
        differences
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["node type at [2]: alias 0 against alias 1"]
    );
}
