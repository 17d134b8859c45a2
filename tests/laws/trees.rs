//! Laws of taking trees apart, putting them together, mapping and comparing them.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};

use proptest::prelude::*;
use pytree::core::match_structure;
use pytree::{Leaf, PytreeOf, Tree, TreeDef, graph, tree};

use crate::laws::cases;
use crate::laws::dynamic::{plans, small_plans};
use crate::laws::typed::{Model, models};

/// The laws of one tree, in both families of functions. `f` and `g` are functions of its leaves.
fn check<L, T>(value: &T, f: fn(&L) -> L, g: fn(&L) -> L)
where
    L: Leaf + Clone + PartialEq + Debug,
    T: PytreeOf<L> + PartialEq + Debug,
{
    macro_rules! check {
        ($family:ident) => {
            let (leaves, treedef) = $family::flatten::<L, T>(value);
            assert_eq!(treedef, $family::structure(value));
            assert_eq!(
                leaves.iter().collect::<Vec<_>>(),
                $family::leaves::<L, T>(value)
            );
            assert_eq!(
                &$family::unflatten::<T, L>(&treedef, leaves.clone()).unwrap(),
                value,
                "unflatten after flatten"
            );

            assert_eq!(&$family::map(value, L::clone), value, "map of the identity");
            let twice = $family::map(&$family::map(value, g), f);
            assert_eq!(
                twice,
                $family::map(value, |leaf: &L| f(&g(leaf))),
                "map of a composition"
            );
            assert_eq!(
                $family::structure(&twice),
                treedef,
                "map keeps the structure"
            );
            let mapped: Tree<L> = $family::map_to(value, f);
            assert_eq!(
                (mapped.treedef(), mapped.leaves()),
                (&treedef, &leaves.iter().map(f).collect::<Vec<L>>()[..])
            );

            let first = $family::map2(value, value, |left: &L, _: &L| f(left)).unwrap();
            assert_eq!(
                first,
                $family::map(value, f),
                "map2 that ignores its second tree"
            );

            let paths = treedef.leaf_paths();
            assert_eq!(
                paths.iter().collect::<BTreeSet<_>>().len(),
                leaves.len(),
                "each path leads to one leaf"
            );
            let with_paths: Vec<_> = paths.iter().cloned().zip(&leaves).collect();
            assert_eq!($family::leaves_with_path::<L, T>(value), with_paths);
            for (path, leaf) in &with_paths {
                assert_eq!(mapped.get(path).unwrap(), &f(leaf), "the leaf at {path}");
            }

            let mut too_many = leaves.clone();
            too_many.extend(leaves.first().cloned());
            for wrong in [too_many, leaves[leaves.len().min(1)..].to_vec()] {
                let fits = wrong.len() == leaves.len();
                assert_eq!(
                    $family::unflatten::<T, L>(&treedef, wrong).is_ok(),
                    fits,
                    "the number of leaves is checked"
                );
            }
        };
    }
    check!(tree);
    check!(graph);
}

/// Structures are equal, hash alike, have no differences and match exactly if they are expected to.
fn check_pair<L, T, U>(left: &T, right: &U, expected: bool)
where
    L: Leaf + Clone,
    T: PytreeOf<L>,
    U: PytreeOf<L>,
{
    let (a, b) = (graph::structure(left), graph::structure(right));
    assert_eq!(a == b, expected, "{a} and {b}");
    assert_eq!(b == a, expected, "equality is symmetric");
    assert_eq!(a.differences(&b).is_empty(), expected, "{a} and {b}");
    assert_eq!(tree::structure(left) == tree::structure(right), expected);
    assert_eq!(
        HashSet::from([a.clone(), b.clone()]).len(),
        if expected { 1 } else { 2 }
    );
    let hasher = RandomState::new();
    assert!(
        !expected || hasher.hash_one(&a) == hasher.hash_one(&b),
        "equal treedefs hash alike"
    );
    assert_eq!(
        match_structure::<L, U>(right, &a, &mut Vec::new()),
        expected,
        "{b} matches {a}"
    );
    assert_eq!(
        match_structure::<L, T>(left, &b, &mut Vec::new()),
        expected,
        "{a} matches {b}"
    );
    let together = tree::map2(left, right, |left: &L, _: &L| left.clone());
    assert_eq!(together.is_ok(), expected, "map2 asks for one structure");
}

/// Joining the children of a tree gives the tree.
fn check_children(treedef: &TreeDef) {
    let children = treedef.children();
    assert_eq!(
        children.iter().map(TreeDef::num_nodes).sum::<usize>() + 1,
        treedef.num_nodes()
    );
    if treedef.num_nodes() > 1 {
        assert_eq!(
            children.iter().map(TreeDef::num_leaves).sum::<usize>(),
            treedef.num_leaves()
        );
    }
    children.iter().for_each(check_children);
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn dynamic_trees_keep_the_laws(plan in plans()) {
        let tree = plan.tree();
        prop_assert_eq!(tree.leaves(), plan.leaves());
        check(&tree, |leaf: &i64| leaf.wrapping_mul(3), |leaf: &i64| leaf.wrapping_add(1));
        check_children(tree.treedef());
    }

    #[test]
    fn typed_trees_keep_the_laws(model in models()) {
        check(&model, |leaf: &f64| leaf * 2.0, |leaf: &f64| leaf + 1.0);
        check_children(&tree::structure(&model));
    }

    #[test]
    fn trees_of_trees_keep_the_laws(plans in (plans(), plans(), plans())) {
        let nested = (vec![plans.0.tree(), plans.1.tree()], Some(plans.2.tree()));
        check(&nested, |leaf: &i64| leaf.wrapping_mul(3), |leaf: &i64| leaf.wrapping_add(1));
    }

    #[test]
    fn dynamic_treedef_equality_is_structural(left in small_plans(), right in small_plans()) {
        check_pair::<i64, _, _>(&left.tree(), &right.tree(), left.structure() == right.structure());
        let other_leaves = Tree::new(left.tree().treedef().clone(), vec![7_i64; left.leaves().len()]).unwrap();
        check_pair::<i64, _, _>(&left.tree(), &other_leaves, true);
    }

    #[test]
    fn typed_treedef_equality_is_structural(left in models(), right in models()) {
        let blank = |model: &Model<String>| tree::map(model, |_: &f64| 0.0);
        // The only field that `==` on floats does not tell apart as treedefs do.
        let same_rate = left.rate.to_bits() == right.rate.to_bits();
        check_pair::<f64, _, _>(&left, &right, blank(&left) == blank(&right) && same_rate);
        check_pair::<f64, _, _>(&left, &blank(&left), true);
    }

    #[test]
    fn value_and_its_tree_have_one_structure(model in models()) {
        let tree = Tree::<f64>::from_value(&model);
        check_pair::<f64, _, _>(&model, &tree, true);
        prop_assert_eq!(tree.to_value::<Model<String>>().unwrap(), model);
    }

    #[test]
    fn tree_shows_as_its_structure_with_leaves(plan in plans()) {
        let tree = plan.tree();
        let with_stars = tree.map(|_| "*");
        let shown = tree.treedef().to_string();
        // As in JAX, where the one is a value's `repr` and the other names a custom node.
        if shown.contains("OrderedDict") {
            prop_assert!(with_stars.to_string().contains("OrderedDict("));
            prop_assert!(shown.contains("CustomNode(OrderedDict["));
        } else {
            prop_assert_eq!(format!("PyTreeDef({with_stars})").replace("'*'", "*"), shown);
        }
    }
}
