//! Reductions.

use std::sync::atomic::{AtomicUsize, Ordering};

use pytree_core::{Tree, graph, tree};

use crate::trees::integers;

fn texts(count: usize) -> Tree<String> {
    Tree::list(
        (0..count)
            .map(|leaf| Tree::leaf(leaf.to_string()))
            .collect(),
    )
}

fn pair(left: String, right: String) -> String {
    format!("({left} {right})")
}

#[test]
fn reduce_combines_leaves_in_order() {
    let tree = integers(&tree!([1, {"b": 2, "a": 3}, None]));
    assert_eq!(
        tree.reduce(String::new(), |text, leaf| format!("{text}{leaf}")),
        "132"
    );
    assert_eq!(
        tree.reduce_without_start(|left, right| left - right),
        Some(1 - 3 - 2)
    );
    assert_eq!(
        integers(&tree!([None])).reduce_without_start(|left, _| left),
        None
    );
    assert_eq!(integers(&tree!(7)).reduce_without_start(|_, _| 0), Some(7));
    assert_eq!(integers(&tree!([])).reduce(5, |_, _| 0), 5);
}

#[test]
fn halves_are_combined_as_in_jax() {
    let expected = [
        "0",
        "(0 1)",
        "(0 (1 2))",
        "((0 1) (2 3))",
        "((0 1) (2 (3 4)))",
        "((0 (1 2)) (3 (4 5)))",
        "((0 (1 2)) ((3 4) (5 6)))",
    ];
    for (position, expected) in expected.into_iter().enumerate() {
        assert_eq!(
            texts(position + 1).reduce_associative(pair).unwrap(),
            expected
        );
    }
    assert_eq!(texts(0).reduce_associative(pair), None);
}

#[test]
fn threads_combine_the_same_leaves() {
    for count in [0, 1, 2, 3, 4, 5, 9, 100, 1001] {
        let tree = texts(count);
        assert_eq!(
            tree.reduce_associative_in_parallel(pair),
            tree.reduce_associative(pair)
        );
    }
}

#[test]
fn threads_give_the_same_bits() {
    let leaves = (0..10_000).map(|leaf| Tree::leaf(1.0 / f64::from(leaf + 1)));
    let tree = Tree::list(leaves.collect());
    let calls = AtomicUsize::new(0);
    let parallel = tree.reduce_associative_in_parallel(|left, right| {
        calls.fetch_add(1, Ordering::Relaxed);
        left + right
    });
    let single = tree.reduce_associative(|left, right| left + right);
    assert_eq!(parallel.unwrap().to_bits(), single.unwrap().to_bits());
    assert_eq!(calls.into_inner(), 9_999);
    assert_ne!(
        single.unwrap().to_bits(),
        tree.reduce(0.0, |left, right| left + right).to_bits()
    );
}

#[test]
#[should_panic(expected = "no pair of 0")]
fn panic_on_a_thread_propagates() {
    let tree = Tree::list((0..1000).map(Tree::leaf).collect());
    tree.reduce_associative_in_parallel(|left, right| {
        assert!(left != 0, "no pair of {left}");
        left.max(right)
    });
}

#[test]
fn all_and_any_apply_predicates() {
    let tree = integers(&tree!([1, (2, None)]));
    assert!(tree.all(|&leaf| leaf > 0));
    assert!(!tree.all(|&leaf| leaf > 1));
    assert!(tree.any(|&leaf| leaf > 1));
    assert!(!tree.any(|&leaf| leaf > 2));
    let empty = integers(&tree!([]));
    assert!(empty.all(|_| false));
    assert!(!empty.any(|_| true));
}

#[test]
fn typed_values_are_reduced() {
    let value = (1_i64, vec![2_i64, 3]);
    assert!(tree::all(&value, |&leaf: &i64| leaf > 0));
    assert!(!tree::all(&value, |&leaf: &i64| leaf > 1));
    assert!(graph::any(&value, |&leaf: &i64| leaf > 2));
    assert!(!graph::any(&value, |&leaf: &i64| leaf > 3));
    assert_eq!(
        tree::reduce_associative(&value, |left: i64, right| left - right),
        Some(1 - (2 - 3))
    );
    assert_eq!(
        tree::reduce_associative(&Vec::<i64>::new(), |left: i64, _| left),
        None
    );
}

#[test]
fn all_leaves_accepts_only_leaves() {
    assert!(tree::all_leaves(&[1_i64, 2]));
    assert!(tree::all_leaves(&[tree!(1), tree!("a")]));
    assert!(!tree::all_leaves(&[tree!(1), tree!([])]));
    assert!(!tree::all_leaves(&[None::<i64>]));
    assert!(graph::all_leaves(Vec::<i64>::new().iter()));
}
