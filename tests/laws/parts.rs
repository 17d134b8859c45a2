//! Laws of splitting trees by filters and merging the parts.

use proptest::prelude::*;
use pytree::kind::{BatchStat, Cache, State};
use pytree::{Filter, KeyPath, Partition, TreeDef, graph, partition};

use crate::laws::cases;
use crate::laws::dynamic::plans;
use crate::laws::typed::models;

/// A function of paths that has nothing to do with what they mean.
fn chance(path: &KeyPath, salt: u64) -> bool {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    path.to_string().bytes().fold(salt, mix) >> 40 & 1 == 1
}

/// Filters of every rule, in every combination.
fn filters() -> impl Strategy<Value = Filter> {
    let paths = [
        "blocks",
        "blocks[0]",
        "blocks[1].weight",
        "statistics.right[1]",
        "by_name['a']",
        "[0]",
        "['a']",
        "",
    ];
    let rule = prop_oneof![
        Just(Filter::everything()),
        Just(Filter::nothing()),
        Just(Filter::param()),
        Just(Filter::any_state()),
        Just(Filter::state::<BatchStat>()),
        Just(Filter::state::<State>()),
        Just(Filter::state::<Cache>()),
        prop::sample::select(paths.to_vec()).prop_map(Filter::path),
        prop::sample::select(vec!["weight", "0", "right", "nowhere"])
            .prop_map(Filter::path_contains),
        Just(Filter::leaf_type::<f64>()),
        any::<u64>().prop_map(|salt| Filter::predicate(move |path, _| chance(path, salt))),
    ];
    rule.prop_recursive(3, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|filter| !filter),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| left & right),
            (inner.clone(), inner).prop_map(|(left, right)| left | right),
        ]
    })
}

/// The filter, if its paths are there; one that names a path that is not there is refused, and nothing
/// stands in for it.
fn fitting(filter: Filter, treedef: &TreeDef) -> Filter {
    if filter.check(treedef).is_ok() {
        filter
    } else {
        Filter::nothing()
    }
}

macro_rules! check {
    ($whole:expr, $leaf:ty, $filters:expr, $order:expr) => {{
        let (whole, filters): (_, [Filter; 2]) = (&$whole, $filters.clone());
        let structure = graph::structure(whole);
        for filter in &filters {
            let outcome =
                partition::split::<_, $leaf, 2>(whole, [filter.clone(), Filter::everything()]);
            prop_assert_eq!(outcome.is_ok(), filter.check(&structure).is_ok());
        }
        let filters = filters.map(|filter| fitting(filter, &structure));
        let [first, second] = filters.clone();
        let split = partition::split::<_, $leaf, 3>(whole, [first, second, Filter::everything()]);
        prop_assert_eq!(split.is_ok(), Filter::check_order(&filters).is_ok());
        // One that accepts everything by what it says of leaves may be anywhere.
        let filters = filters.map(|filter| filter & Filter::everything());
        let [first, second] = filters.clone();
        let parts = partition::split(whole, [first, second, Filter::everything()]).unwrap();

        let (leaves, treedef) = graph::flatten::<$leaf, _>(whole);
        let (paths, kinds) = (treedef.leaf_paths(), treedef.leaf_kinds());
        prop_assert_eq!(
            parts.iter().map(Partition::len).sum::<usize>(),
            leaves.len(),
            "each leaf is in one part"
        );
        for ((path, kind), leaf) in paths.iter().zip(kinds).zip(&leaves) {
            let expected = filters
                .iter()
                .position(|filter| filter.accepts(path, kind, leaf))
                .unwrap_or(2);
            for (number, part) in parts.iter().enumerate() {
                prop_assert_eq!(
                    part.tree().get(path).ok(),
                    (number == expected).then_some(leaf),
                    "{} in part {}",
                    path,
                    number
                );
            }
        }

        let mut shuffled = parts.to_vec();
        shuffled.swap(0, $order);
        prop_assert_eq!(
            &partition::merge(shuffled).unwrap(),
            whole,
            "merge after split"
        );
        for part in &parts {
            prop_assert_eq!(
                &partition::replace(whole, part).unwrap(),
                whole,
                "a part replaces itself"
            );
            let (present, structure) = graph::flatten::<$leaf, _>(part);
            let back: Partition<_, $leaf> = graph::unflatten(&structure, present).unwrap();
            prop_assert_eq!(&back, part, "a part is a pytree");
        }
        let complete = parts
            .iter()
            .filter(|part| part.len() == leaves.len())
            .count();
        for part in &parts {
            prop_assert_eq!(
                partition::merge([part.clone()]).is_ok(),
                part.len() == leaves.len(),
                "nothing is missing"
            );
            prop_assert_eq!(
                partition::merge([part.clone(), part.clone()]).is_ok(),
                leaves.is_empty(),
                "{} complete",
                complete
            );
        }
        let negated = !filters[0].clone();
        let halves = [
            partition::filter(whole, &filters[0]),
            partition::filter(whole, &negated),
        ];
        prop_assert_eq!(
            &partition::merge(halves).unwrap(),
            whole,
            "a filter and its negation"
        );
    }};
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn parts_of_typed_trees_merge_to_whole(model in models(), filters in [filters(), filters()], order in 0..3_usize) {
        check!(model, f64, filters, order);
    }

    #[test]
    fn parts_of_dynamic_trees_merge_to_whole(plan in plans(), filters in [filters(), filters()], order in 0..3_usize) {
        check!(plan.tree(), i64, filters, order);
    }

    #[test]
    fn changed_part_changes_its_own_leaves_only(model in models(), filter in filters()) {
        let filter = fitting(filter, &graph::structure(&model));
        let part = partition::filter::<_, f64>(&model, &filter);
        let replaced = partition::replace(&model, &part.map(|leaf| leaf + 1.0)).unwrap();
        let (leaves, treedef) = graph::flatten::<f64, _>(&model);
        let found = graph::leaves::<f64, _>(&replaced);
        for ((path, leaf), found) in treedef.leaf_paths().iter().zip(&leaves).zip(found) {
            let expected = if part.tree().get(path).is_ok() { leaf + 1.0 } else { *leaf };
            prop_assert_eq!(*found, expected, "{}", path);
        }
    }
}
