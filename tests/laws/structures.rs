//! Laws of structures made of structures: composing, prefixes, cutting and joining, transposing, bytes.

use std::cmp::Ordering;

use proptest::collection::vec;
use proptest::prelude::*;
use pytree::core::shape::NodeKind;
use pytree::{Tree, TreeDef, tree};

use crate::laws::cases;
use crate::laws::dynamic::{plans, small_plans};
use crate::laws::typed::{Model, models};

/// A tree of the structure whose leaves count up from `start`.
fn counted(treedef: &TreeDef, start: i64) -> Tree<i64> {
    let end = start + i64::try_from(treedef.num_leaves()).unwrap();
    Tree::new(treedef.clone(), (start..end).collect()).unwrap()
}

/// Kinds of nodes at which a tree may be cut.
fn kinds() -> impl Strategy<Value = Vec<NodeKind>> {
    let kind = prop_oneof![
        Just(NodeKind::List),
        Just(NodeKind::Tuple),
        Just(NodeKind::Dict),
        Just(NodeKind::OrderedDict),
        Just(NodeKind::None),
    ];
    vec(kind, 0..3)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn composition_has_inner_structure_at_each_leaf(outer in small_plans(), inner in small_plans()) {
        let (outer, inner) = (outer.tree(), inner.tree());
        let composed = outer.treedef().compose(inner.treedef());
        prop_assert_eq!(
            composed.num_leaves(),
            outer.treedef().num_leaves() * inner.treedef().num_leaves()
        );
        let by_join = outer.map(|_| counted(inner.treedef(), 0)).join();
        prop_assert_eq!(by_join.treedef(), &composed);
        prop_assert_eq!(&TreeDef::leaf().compose(inner.treedef()), inner.treedef());
        prop_assert_eq!(&outer.treedef().compose(&TreeDef::leaf()), outer.treedef());
        prop_assert!(outer.treedef().is_prefix_of(&composed));
        let parts = outer.treedef().flatten_up_to(&by_join).unwrap();
        prop_assert_eq!(parts.len(), outer.treedef().num_leaves());
        for part in parts {
            prop_assert_eq!(part, counted(inner.treedef(), 0));
        }
    }

    #[test]
    fn a_tree_cut_anywhere_joins_again(plan in plans(), kinds in kinds()) {
        let whole = plan.tree();
        let cut = whole.cut(|subtree| kinds.contains(&subtree.kind()));
        prop_assert!(cut.treedef().is_prefix_of(whole.treedef()));
        for part in cut.leaves() {
            let kind = part.treedef().kind();
            prop_assert!(kind == NodeKind::Leaf || kinds.contains(&kind));
        }
        prop_assert_eq!(cut.treedef().flatten_up_to(&whole).unwrap(), cut.leaves());
        prop_assert_eq!(&cut.join(), &whole);
        let with_none = whole.clone().none_as_leaves();
        prop_assert!(with_none.treedef().num_leaves() >= whole.leaves().len());
        prop_assert_eq!(with_none.none_as_nodes(), whole);
    }

    #[test]
    fn prefixes_are_a_partial_order(plans in [small_plans(), small_plans(), small_plans()], kinds in kinds()) {
        let [a, b, c] = plans.map(|plan| plan.tree().treedef().clone());
        for x in [&a, &b, &c] {
            prop_assert!(x.is_prefix_of(x));
            prop_assert!(TreeDef::leaf().is_prefix_of(x));
            for y in [&a, &b, &c] {
                prop_assert_eq!(x.is_prefix_of(y), x.prefix_differences(y).is_empty());
                prop_assert_eq!(x == y, x.partial_cmp(y) == Some(Ordering::Equal));
                prop_assert_eq!(x < y, y > x);
                if x.is_prefix_of(y) && y.is_prefix_of(x) {
                    prop_assert_eq!(x, y);
                }
                for z in [&a, &b, &c] {
                    prop_assert!(!(x.is_prefix_of(y) && y.is_prefix_of(z)) || x.is_prefix_of(z));
                }
            }
        }
        let shorter = counted(&a, 0).cut(|subtree| kinds.contains(&subtree.kind())).treedef().clone();
        prop_assert!(shorter <= a);
    }

    #[test]
    fn a_broadcast_prefix_repeats_its_leaves(plan in plans(), kinds in kinds()) {
        let whole = plan.tree();
        let prefix = counted(whole.cut(|subtree| kinds.contains(&subtree.kind())).treedef(), 0);
        let broadcast = prefix.broadcast_to(whole.treedef()).unwrap();
        prop_assert_eq!(broadcast.treedef(), whole.treedef());
        let expected: Vec<i64> = prefix
            .treedef()
            .flatten_up_to(&whole)
            .unwrap()
            .iter()
            .zip(prefix.leaves())
            .flat_map(|(part, leaf)| std::iter::repeat_n(*leaf, part.leaves().len()))
            .collect();
        prop_assert_eq!(broadcast.leaves(), &expected[..]);
    }

    #[test]
    fn transposing_twice_is_the_identity(outer in small_plans(), inner in small_plans()) {
        let (outer, inner) = (outer.tree().treedef().clone(), inner.tree().treedef().clone());
        let nested = counted(&outer.compose(&inner), 0);
        let transposed = nested.transpose(&outer, Some(&inner)).unwrap();
        prop_assert_eq!(transposed.treedef(), &inner.compose(&outer));
        prop_assert_eq!(transposed.transpose(&inner, Some(&outer)).unwrap(), nested);
    }

    #[test]
    fn reductions_agree(plan in plans()) {
        let whole = plan.tree();
        let leaves = whole.leaves();
        let sum = leaves.iter().fold(0_i64, |sum, leaf| sum.wrapping_add(*leaf));
        prop_assert_eq!(whole.reduce(0_i64, |sum, leaf| sum.wrapping_add(*leaf)), sum);
        let expected = (!leaves.is_empty()).then_some(sum);
        prop_assert_eq!(whole.reduce_associative(i64::wrapping_add), expected);
        prop_assert_eq!(whole.reduce_without_start(|a, b| a.wrapping_add(*b)), expected);
        // Joining strings is associative but not commutative, so the result shows the order.
        let texts = whole.map(|leaf| format!("{leaf},"));
        let joined = (!leaves.is_empty()).then(|| texts.leaves().concat());
        prop_assert_eq!(texts.reduce_associative(|a, b| a + &b), joined.clone());
        prop_assert_eq!(texts.reduce_associative_in_parallel(|a, b| a + &b), joined);
        prop_assert_eq!(whole.all(|leaf| *leaf > 0), leaves.iter().all(|leaf| *leaf > 0));
        prop_assert_eq!(whole.any(|leaf| *leaf > 0), leaves.iter().any(|leaf| *leaf > 0));
    }

    #[test]
    fn bytes_of_dynamic_trees_are_read_back(left in plans(), right in plans()) {
        let (left, right) = (left.tree().treedef().clone(), right.tree().treedef().clone());
        prop_assert_eq!(&TreeDef::from_bytes(&left.to_bytes()).unwrap(), &left);
        prop_assert_eq!(left == right, left.content_hash() == right.content_hash());
    }

    #[test]
    fn typed_trees_round_trip_through_bytes(model in models()) {
        let (leaves, treedef) = tree::flatten_any(&model);
        let read = TreeDef::from_bytes(&treedef.to_bytes()).unwrap();
        prop_assert_eq!(&read, &treedef);
        prop_assert_eq!(read.content_hash(), treedef.content_hash());
        prop_assert_eq!(read.to_string(), treedef.to_string());
        prop_assert_eq!(read.leaf_kinds(), treedef.leaf_kinds());
        let back: Model<String> = tree::unflatten(&read, leaves).unwrap();
        prop_assert_eq!(back, model);
    }
}
