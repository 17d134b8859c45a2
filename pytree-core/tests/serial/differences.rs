//! How two structures differ, all places at once.

use pytree_core::{Module, Tree, tree};

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
            "node type at [2]: None against a leaf",
            "number of children at [3]: 2 against 3",
            "keys at [4]: ['k'] against ['k', 'l']",
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
            "node type at inner[0]: a leaf against None",
        ]
    );
}
