//! Key paths print as users write them, and their text parses to the same path.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use pytree::core::StaticValue;
use pytree::{KeyPath, PathKey, tree};

use crate::laws::cases;
use crate::laws::dynamic::{plans, texts};
use crate::laws::typed::models;

fn keys() -> impl Strategy<Value = PathKey> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,3}|[0-9]".prop_map(|name| PathKey::Field(name.into())),
        any::<i128>().prop_map(PathKey::Index),
        texts().prop_map(PathKey::Text),
    ]
}

/// The path of the leaf below a key of a map parses back to itself.
fn check_key<K: StaticValue + Ord + Debug>(key: K) {
    let map = BTreeMap::from([(key, [1.0_f64])]);
    let path = tree::structure(&map).leaf_paths().remove(0);
    assert_eq!(
        path.to_string().parse::<KeyPath>().ok().as_ref(),
        Some(&path),
        "{path}"
    );
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn what_a_path_prints_parses_back(keys in vec(keys(), 0..5)) {
        let path: KeyPath = keys.into_iter().collect();
        prop_assert_eq!(path.to_string().parse::<KeyPath>().unwrap(), path);
    }

    #[test]
    fn the_paths_of_trees_parse_back(plan in plans(), model in models()) {
        for path in plan.tree().treedef().leaf_paths().into_iter().chain(tree::structure(&model).leaf_paths()) {
            prop_assert_eq!(path.to_string().parse::<KeyPath>().unwrap(), path);
        }
    }

    #[test]
    fn paths_with_other_keys_round_trip(truth in any::<bool>(), number in any::<i32>(), large in any::<u64>()) {
        check_key(truth);
        check_key(number);
        check_key(u128::MAX - u128::from(large));
        check_key((number, large));
        check_key(Some(number));
        check_key(vec![number, number]);
        check_key([(number, truth)]);
    }

    #[test]
    fn paths_with_text_keys_round_trip(text in texts(), character in any::<char>()) {
        check_key(text.clone());
        check_key(text.clone().into_boxed_str());
        check_key(character);
    }

    #[test]
    fn paths_with_nested_text_keys_round_trip(text in texts(), number in any::<i32>()) {
        check_key((text.clone(), number));
        check_key(vec![text.clone(), text.clone()]);
        check_key(Some(text));
    }

    #[test]
    fn parsing_any_text_gives_path_or_error(text in "[\\[\\]().'\"\\\\a0-]{0,8}") {
        if let Ok(path) = text.parse::<KeyPath>() {
            prop_assert_eq!(path.to_string().parse::<KeyPath>().unwrap(), path);
        }
    }

    #[test]
    fn path_is_prefix_of_its_continuations(keys in vec(keys(), 0..5), cut in any::<prop::sample::Index>()) {
        let whole: KeyPath = keys.iter().cloned().collect();
        let start: KeyPath = keys[..cut.index(keys.len() + 1)].iter().cloned().collect();
        prop_assert!(start.is_prefix_of(&whole));
        prop_assert_eq!(whole.is_prefix_of(&start), whole == start);
    }
}
