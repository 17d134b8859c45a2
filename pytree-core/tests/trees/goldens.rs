//! Every member of `tests/golden/trees.json`, which JAX and optree computed.

use indexmap::IndexMap;
use pytree_core::error::DifferenceKind;
use pytree_core::shape::NodeKind;
use pytree_core::{StaticData, Subtree, Tree, TreeDef, TreeError};
use serde_json::Value;

use crate::trees::golden_tree::{golden, texts, tree_of};

/// Calls `compare` with each case of a member, of which there are as many as given.
fn each(member: &str, expected: usize, mut compare: impl FnMut(&Value)) {
    let golden = golden();
    let cases = golden[member].as_array().unwrap();
    cases.iter().for_each(&mut compare);
    assert_eq!(cases.len(), expected, "cases of {member}");
}

fn treedef_of(case: &Value) -> TreeDef {
    tree_of(case).treedef().clone()
}

fn shown_paths(treedef: &TreeDef) -> Vec<String> {
    let paths = treedef.leaf_paths();
    // A field at the root has its dot in JAX, and none here.
    paths.iter().map(key_text).collect()
}

fn key_text(path: &pytree_core::KeyPath) -> String {
    path.keys().iter().map(ToString::to_string).collect()
}

#[test]
fn cases() {
    each("cases", 118, |case| {
        let tree = tree_of(&case["tree"]);
        let treedef = tree.treedef();
        assert_eq!(case["treedef"], treedef.to_string());
        assert_eq!(case["num_nodes"], treedef.num_nodes());
        assert_eq!(case["num_leaves"], treedef.num_leaves());
        assert_eq!(case["leaves"], Value::from(tree.leaves()));
        assert_eq!(case["keystr"], Value::from(shown_paths(treedef)));
        let joined: Vec<String> = treedef
            .leaf_paths()
            .iter()
            .map(|path| path.join("/"))
            .collect();
        assert_eq!(case["keystr_simple"], Value::from(joined));
    });
}

#[test]
fn none_is_leaf() {
    each("none_is_leaf", 28, |case| {
        let tree = tree_of(&case["tree"]);
        let with_leaves = tree.clone().none_as_leaves();
        let treedef = with_leaves.treedef();
        assert_eq!(case["treedef"], treedef.to_string());
        assert_eq!(case["num_nodes"], treedef.num_nodes());
        assert_eq!(case["num_leaves"], treedef.num_leaves());
        assert_eq!(case["leaves"], Value::from(with_leaves.leaves().to_vec()));
        assert_eq!(case["keystr"], Value::from(shown_paths(treedef)));
        assert_eq!(with_leaves.none_as_nodes(), tree);
    });
}

fn predicate(name: &str) -> fn(&Subtree<'_, i64>) -> bool {
    match name {
        "list" => |tree| tree.kind() == NodeKind::List,
        "tuple" => |tree| tree.kind() == NodeKind::Tuple,
        "namedtuple" => |tree| tree.kind() == NodeKind::NamedTuple,
        "dict" => |tree| tree.kind() == NodeKind::Dict,
        "odict" => |tree| tree.kind() == NodeKind::OrderedDict,
        "none" => |tree| tree.kind() == NodeKind::None,
        "any" => |_| true,
        other => panic!("no predicate is called {other}"),
    }
}

#[test]
fn is_leaf() {
    each("is_leaf", 31, |case| {
        let tree = tree_of(&case["tree"]);
        let cut = tree.cut(predicate(case["predicate"].as_str().unwrap()));
        assert_eq!(case["treedef"], cut.treedef().to_string());
        assert_eq!(case["keystr"], Value::from(shown_paths(cut.treedef())));
        let leaves = case["leaves"].as_array().unwrap();
        let leaves: Vec<Tree<i64>> = leaves.iter().map(tree_of).collect();
        assert_eq!(cut.leaves(), leaves);
        assert_eq!(cut.join(), tree);
    });
}

#[test]
fn equality() {
    each("equality", 65, |case| {
        let (left, right) = (treedef_of(&case["left"]), treedef_of(&case["right"]));
        assert_eq!(case["equal"], left == right, "{case}");
        assert_eq!(case["equal"], right == left, "{case}");
        assert_eq!(case["equal"], left.differences(&right).is_empty(), "{case}");
    });
}

/// optree takes dictionaries in any order for each other, and JAX does not: a prefix here is one in JAX, and where the
/// two say the same, the order is that of optree.
#[test]
fn prefix_order() {
    let mut as_in_optree = 0;
    each("prefix_order", 46, |case| {
        let (left, right) = (treedef_of(&case["left"]), treedef_of(&case["right"]));
        assert_eq!(
            case["is_prefix_in_jax"],
            left.is_prefix_of(&right),
            "{case}"
        );
        if case["is_prefix"] != case["is_prefix_in_jax"] {
            assert!(case.to_string().contains("odict"), "{case}");
            assert_eq!(left.partial_cmp(&right), None, "{case}");
            return;
        }
        assert_eq!(case["less"], left < right, "{case}");
        assert_eq!(case["less"], right > left, "{case}");
        assert_eq!(case["less_equal"], left <= right, "{case}");
        assert_eq!(case["equal"], left == right, "{case}");
        as_in_optree += 1;
    });
    assert_eq!(as_in_optree, 41);
}

#[test]
fn prefix_errors() {
    let mut errors = 0;
    each("prefix_errors", 80, |case| {
        let (prefix, full) = (treedef_of(&case["prefix"]), treedef_of(&case["full"]));
        let expected = case["errors"].as_array().unwrap();
        let found = prefix.prefix_differences(&full);
        assert_eq!(prefix.is_prefix_of(&full), expected.is_empty(), "{case}");
        assert_eq!(found.len(), expected.len(), "{case}");
        for (expected, found) in expected.iter().zip(found) {
            assert_eq!(expected["path"], key_text(&found.path), "{case}");
            let message = expected["message"].as_str().unwrap();
            let kind = match message.lines().next().unwrap() {
                "pytree structure error: different types at key path" => DifferenceKind::NodeType,
                "pytree structure error: different pytree metadata at key path"
                | "pytree structure error: different numbers of pytree children at key path" => {
                    DifferenceKind::Keys
                }
                "pytree structure error: different lengths of list at key path"
                | "pytree structure error: different lengths of tuple at key path" => {
                    let lengths = format!(
                        "of length {}, but the full pytree has a subtree of the same type but of length {}.",
                        found.left, found.right
                    );
                    assert!(message.ends_with(&lengths), "{case}");
                    DifferenceKind::Arity
                }
                other => panic!("JAX has no such error: {other}"),
            };
            assert_eq!(found.why, kind, "{case}");
            errors += 1;
        }
    });
    assert_eq!(errors, 64);
}

#[test]
fn broadcast() {
    each("broadcast", 24, |case| {
        let (prefix, full) = (tree_of(&case["prefix"]), treedef_of(&case["full"]));
        let result = prefix.broadcast_to(&full).unwrap();
        assert_eq!(case["leaves"], Value::from(result.leaves()));
        assert_eq!(result, tree_of(&case["result"]));
    });
}

/// optree takes dictionaries in any order for each other, and JAX does not: where only that makes them fit, there is no
/// common suffix here.
#[test]
fn common_suffix() {
    let (mut found, mut refused, mut in_optree_only) = (0, 0, 0);
    each("common_suffix", 42, |case| {
        let (left, right) = (tree_of(&case["left"]), tree_of(&case["right"]));
        let suffix = left.treedef().broadcast_to_common_suffix(right.treedef());
        let both = left.broadcast_common(&right);
        if case.get("error").is_some() || case["jax_has_it"] == false {
            let error = suffix.unwrap_err();
            assert_eq!(both.unwrap_err(), error, "{case}");
            let TreeError::Structure { differences, .. } = error else {
                panic!("{error} in {case}");
            };
            assert!(!differences.is_empty(), "{case}");
            if case.get("error").is_some() {
                refused += 1;
            } else {
                assert!(case.to_string().contains("odict"), "{case}");
                in_optree_only += 1;
            }
            return;
        }
        let suffix = suffix.unwrap();
        assert_eq!(suffix, treedef_of(&case["suffix"]), "{case}");
        let (left_result, right_result) = both.unwrap();
        assert_eq!(left_result, tree_of(&case["results"][0]), "{case}");
        assert_eq!(right_result, tree_of(&case["results"][1]), "{case}");
        assert_eq!(case["leaves"][0], Value::from(left_result.leaves()));
        assert_eq!(case["leaves"][1], Value::from(right_result.leaves()));
        if let Some(expected) = case["leaves_with_none"].as_array() {
            let (left, right) = (left.none_as_leaves(), right.none_as_leaves());
            let (left, right) = left.broadcast_common(&right).unwrap();
            assert_eq!(expected[0], Value::from(left.leaves().to_vec()), "{case}");
            assert_eq!(expected[1], Value::from(right.leaves().to_vec()), "{case}");
        }
        found += 1;
    });
    assert_eq!((found, refused, in_optree_only), (25, 13, 4));
}

#[test]
fn broadcast_map() {
    let mut refused = 0;
    each("broadcast_map", 9, |case| {
        let trees = case["trees"].as_array().unwrap();
        let trees: Vec<Tree<i64>> = trees.iter().map(tree_of).collect();
        let (first, rest) = trees.split_first().unwrap();
        let mut rows = Vec::new();
        let sums = first.broadcast_map(rest, |leaf, rest| {
            let row: Vec<i64> = std::iter::once(leaf)
                .chain(rest.iter().copied())
                .copied()
                .collect();
            let sum: i64 = row.iter().sum();
            rows.push(Value::from(row));
            sum
        });
        if case.get("error").is_some() {
            assert!(matches!(sums, Err(TreeError::Structure { .. })), "{case}");
            assert!(rows.is_empty());
            refused += 1;
            return;
        }
        assert_eq!(case["rows"], Value::from(rows), "{case}");
        assert_eq!(sums.unwrap(), tree_of(&case["result"]), "{case}");
    });
    assert_eq!(refused, 3);
}

#[test]
fn flatten_up_to() {
    each("flatten_up_to", 80, |case| {
        let (prefix, tree) = (treedef_of(&case["prefix"]), tree_of(&case["tree"]));
        match (prefix.flatten_up_to(&tree), case.get("subtrees")) {
            (Ok(subtrees), Some(expected)) => {
                let expected = expected.as_array().unwrap();
                let expected: Vec<Tree<i64>> = expected.iter().map(tree_of).collect();
                assert_eq!(subtrees, expected);
            }
            (Err(TreeError::Prefix { misfits, .. }), None) => {
                assert_eq!(case["error"], true);
                let found = misfits.into_iter().map(|misfit| misfit.difference);
                let found: Vec<_> = found.collect();
                assert_eq!(found, prefix.prefix_differences(tree.treedef()));
            }
            (other, _) => panic!("{other:?} in {case}"),
        }
    });
}

#[test]
fn compose() {
    each("compose", 30, |case| {
        let composed = treedef_of(&case["outer"]).compose(&treedef_of(&case["inner"]));
        assert_eq!(case["result_treedef"], composed.to_string());
        assert_eq!(case["num_leaves"], composed.num_leaves());
        assert_eq!(case["num_nodes"], composed.num_nodes());
    });
}

/// JAX compares the numbers of leaves; here the structures are compared, and none is scrambled.
#[test]
fn transpose() {
    let (mut transposed, mut refused) = (0, 0);
    each("transpose", 46, |case| {
        let (outer, tree) = (treedef_of(&case["outer"]), tree_of(&case["tree"]));
        let inner = Some(&case["inner"]).filter(|inner| !inner.is_null());
        let inner = inner.map(treedef_of);
        let result = tree.transpose(&outer, inner.as_ref());
        if let Some(expected) = case.get("result") {
            assert_eq!(result.unwrap(), tree_of(expected));
            transposed += 1;
        } else if case.get("structures_fit").is_some() {
            // JAX fails where the outer structure has no leaf, though nothing is missing.
            let result = result.unwrap();
            assert_eq!(*result.treedef(), inner.unwrap().compose(&outer));
            transposed += 1;
        } else {
            assert_eq!(case["error"], true);
            let error = result.unwrap_err();
            match &error {
                TreeError::Transpose { differences } => assert!(!differences.is_empty()),
                TreeError::Prefix { .. } => assert!(inner.is_none(), "{case}"),
                TreeError::Build { .. } => assert_eq!(outer.num_leaves(), 0, "{case}"),
                other => panic!("{other} in {case}"),
            }
            refused += 1;
        }
    });
    assert_eq!((transposed, refused), (24, 22));
}

#[test]
fn one_level() {
    each("one_level", 23, |case| {
        let children = tree_of(&case["tree"]).flatten_one_level().unwrap();
        let (keys, children): (Vec<_>, Vec<_>) = children.into_iter().unzip();
        let expected = case["children"].as_array().unwrap();
        let expected: Vec<Tree<i64>> = expected.iter().map(tree_of).collect();
        assert_eq!(children, expected);
        let keys: Vec<String> = keys
            .into_iter()
            .map(|key| key.unwrap().to_string())
            .collect();
        assert_eq!(keys, texts(&case["keys"]));
    });
}

#[test]
fn accessors() {
    each("accessors", 19, |case| {
        let tree = tree_of(&case["tree"]);
        let codes: Vec<String> = shown_paths(tree.treedef())
            .into_iter()
            .map(|path| format!("tree{path}"))
            .collect();
        assert_eq!(codes, texts(&case["codes"]));
        for (path, leaf) in tree.iter_with_path() {
            assert_eq!(tree.at(&path).unwrap().leaves(), [*leaf]);
        }
    });
}

#[test]
fn walk() {
    each("walk", 18, |case| {
        let tree = tree_of(&case["tree"]);
        let events = tree.treedef().fold(
            tree.leaves()
                .iter()
                .map(|leaf| vec![serde_json::json!(["leaf", leaf])]),
            |node, children| {
                let arity = children.len();
                assert_eq!(node.num_children(), arity);
                let mut events = children.concat();
                events.push(serde_json::json!(["node", arity]));
                events
            },
        );
        assert_eq!(case["events"], Value::from(events.unwrap()));
    });
}

/// The keys of every dictionary are visited in order, and come back as they were inserted.
#[test]
fn insertion_order() {
    each("insertion_order", 12, |case| {
        let tree = tree_of(&case["tree"]);
        assert_eq!(case["leaves"], Value::from(tree.leaves()));
        assert_eq!(tree_of(&case["result"]), tree);
        if tree.treedef().kind() == NodeKind::Dict {
            let restored: IndexMap<StaticData, Tree<i64>> = tree.to_value().unwrap();
            let keys: Vec<Value> = restored
                .keys()
                .map(|key| match key {
                    StaticData::Integer(number) => Value::from(i64::try_from(*number).unwrap()),
                    StaticData::Text(text) => Value::from(text.as_str()),
                    other => panic!("no key of the cases: {other}"),
                })
                .collect();
            assert_eq!(case["keys_after_unflatten"], Value::from(keys));
        }
    });
}

#[test]
fn mixed_keys() {
    each("mixed_keys", 8, |case| {
        let tree = tree_of(&case["tree"]);
        assert_eq!(case["leaves"], Value::from(tree.leaves()));
        let codes: Vec<String> = shown_paths(tree.treedef())
            .into_iter()
            .map(|path| format!("tree{path}"))
            .collect();
        assert_eq!(codes, texts(&case["codes"]));
        let keys: Vec<String> = tree
            .root()
            .root()
            .keys()
            .map(|key| key.unwrap().to_string())
            .collect();
        let sorted = case["sorted_keys"].as_array().unwrap();
        let sorted: Vec<String> = sorted
            .iter()
            .map(|key| match key.as_str() {
                Some(text) => format!("['{text}']"),
                None => format!("[{key}]"),
            })
            .collect();
        assert_eq!(keys, sorted);
    });
}
