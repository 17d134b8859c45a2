//! A tree of a hundred thousand levels: every function is iterative, and linear.

use pytree_core::shape::NodeKind;
use pytree_core::{KeyPath, PathKey, Tree, TreeDef, TreeError};

const LEVELS: usize = 100_000;

/// Lists in lists, with `inner` at the bottom.
fn nested(inner: Tree<i64>) -> Tree<i64> {
    // Doubling keeps the building linear: a treedef of lists is composed with itself.
    let mut levels = LEVELS;
    let mut power = TreeDef::list(vec![TreeDef::leaf()]);
    let mut whole = TreeDef::leaf();
    while levels > 0 {
        if levels % 2 == 1 {
            whole = whole.compose(&power);
        }
        power = power.compose(&power);
        levels /= 2;
    }
    let treedef = whole.compose(inner.treedef());
    Tree::new(treedef, inner.into_parts().0).unwrap()
}

fn bottom() -> KeyPath {
    std::iter::repeat_n(PathKey::Index(0), LEVELS).collect()
}

#[test]
fn composing_is_iterative() {
    let tree = nested(Tree::tuple(vec![Tree::leaf(1), Tree::none()]));
    assert_eq!(tree.treedef().num_nodes(), LEVELS + 3);
    assert_eq!(tree.treedef().child(0).unwrap().num_nodes(), LEVELS + 2);
    assert_eq!(
        tree.treedef().nodes().last().unwrap().kind(),
        NodeKind::None
    );
    assert_eq!(
        tree.flatten_one_level().unwrap()[0].1.treedef().num_nodes(),
        LEVELS + 2
    );
}

#[test]
fn folding_is_iterative() {
    let tree = nested(Tree::leaf(1));
    let depth = tree
        .treedef()
        .fold([0_usize], |_, below| 1 + below[0])
        .unwrap();
    assert_eq!(depth, LEVELS);
}

#[test]
fn prefixes_are_compared_iteratively() {
    let prefix = nested(Tree::leaf(1));
    let full = nested(Tree::list(vec![Tree::leaf(2), Tree::leaf(3)]));
    assert!(prefix.treedef() < full.treedef());
    assert_eq!(
        prefix.treedef().flatten_up_to(&full).unwrap()[0].leaves(),
        [2, 3]
    );
    assert_eq!(
        prefix.broadcast_to(full.treedef()).unwrap().leaves(),
        [1, 1]
    );
    let sums = prefix.map_with(&[full], |leaf, rest| {
        leaf + rest[0].leaves().iter().sum::<i64>()
    });
    assert_eq!(sums.unwrap().leaves(), [6]);
}

#[test]
fn path_of_deep_difference_is_reported() {
    let prefix = nested(Tree::tuple(vec![Tree::leaf(1)]));
    let full = nested(Tree::list(vec![Tree::leaf(2)]));
    let found = prefix.treedef().prefix_differences(full.treedef());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, bottom());
    let error = full
        .transpose(nested(Tree::leaf(0)).treedef(), Some(&TreeDef::leaf()))
        .unwrap_err();
    let TreeError::Transpose { differences } = error else {
        panic!("{error}");
    };
    assert_eq!(differences[0].path, bottom());
}

#[test]
fn subtrees_are_found_iteratively() {
    let tree = nested(Tree::tuple(vec![Tree::leaf(1), Tree::leaf(2)]));
    let found = tree.at(&bottom()).unwrap();
    assert_eq!(
        (found.kind(), found.leaves()),
        (NodeKind::Tuple, &[1, 2][..])
    );
    assert_eq!(found.path(), bottom());
    let mut path = bottom();
    path.push(PathKey::Index(2));
    let error = tree.at(&path).unwrap_err();
    assert!(matches!(error, TreeError::NoSubtree { reached, .. } if reached == bottom()));
}

#[test]
fn cutting_and_joining_are_iterative() {
    let tree = nested(Tree::tuple(vec![Tree::leaf(1), Tree::none()]));
    let cut = tree.cut(|subtree| subtree.kind() == NodeKind::Tuple);
    assert_eq!(cut.leaves()[0].leaves(), [1]);
    assert_eq!(cut.treedef().num_nodes(), LEVELS + 1);
    assert!(cut.join() == tree);
    let with_leaves = tree.clone().none_as_leaves();
    assert_eq!(with_leaves.leaves(), [Some(1), None]);
    assert!(with_leaves.none_as_nodes() == tree);
}

#[test]
fn transposing_is_iterative() {
    let tree = nested(Tree::tuple(vec![Tree::leaf(1), Tree::leaf(2)]));
    let outer = nested(Tree::leaf(0)).into_parts().1;
    let turned = tree.transpose(&outer, None).unwrap();
    assert_eq!(turned.treedef().kind(), NodeKind::Tuple);
    assert_eq!(turned.leaves(), [1, 2]);
    assert_eq!(
        turned.reduce_associative(|left, right| left - right),
        Some(-1)
    );
}
