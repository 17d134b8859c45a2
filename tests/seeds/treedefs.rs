//! Treedefs and key paths as JAX prints them: the cases of `tests/golden/trees.json`.
//!
//! Two forms differ by design. A map in insertion order shows its keys beside their children, where JAX has
//! `CustomNode(OrderedDict[('b', 'a')], [*, *])`; and a named tuple is a struct here, so no dynamic tree has one.

use pytree::Tree;
use serde_json::Value;

/// The tree that a case describes; none if it has a named tuple.
fn tree_of(case: &Value) -> Option<Tree<i64>> {
    let (kind, value) = case.as_object()?.iter().next()?;
    let children = || -> Option<Vec<Tree<i64>>> { value.as_array()?.iter().map(tree_of).collect() };
    Some(match kind.as_str() {
        "leaf" => Tree::leaf(value.as_i64()?),
        "none" => Tree::none(),
        "list" => Tree::list(children()?),
        "tuple" => Tree::tuple(children()?),
        "dict" => {
            let entries = value.as_array()?;
            entries_of(entries, Value::as_i64)
                .map(Tree::dict)
                .or_else(|| entries_of(entries, text).map(Tree::dict))?
        }
        "odict" => {
            let entries = value.as_array()?;
            entries_of(entries, Value::as_i64)
                .map(Tree::ordered_dict)
                .or_else(|| entries_of(entries, text).map(Tree::ordered_dict))?
        }
        _ => return None,
    })
}

fn text(key: &Value) -> Option<String> {
    key.as_str().map(str::to_owned)
}

/// The entries of a map, if all of its keys are of one type.
fn entries_of<K>(
    entries: &[Value],
    key_of: impl Fn(&Value) -> Option<K>,
) -> Option<Vec<(K, Tree<i64>)>> {
    entries
        .iter()
        .map(|entry| Some((key_of(&entry[0])?, tree_of(&entry[1])?)))
        .collect()
}

#[test]
fn treedefs_and_paths_are_shown_as_in_jax() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/trees.json");
    let text = std::fs::read_to_string(path).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for case in golden["cases"].as_array().unwrap() {
        let Some(tree) = tree_of(&case["tree"]) else {
            assert!(case["tree"].to_string().contains("namedtuple"), "{case}");
            continue;
        };
        let treedef = tree.treedef();
        if !case["tree"].to_string().contains("odict") {
            assert_eq!(case["treedef"], treedef.to_string());
            compared += 1;
        }
        assert_eq!(case["num_nodes"], treedef.num_nodes());
        assert_eq!(case["num_leaves"], treedef.num_leaves());
        assert_eq!(case["leaves"], Value::from(tree.leaves()));
        let paths = treedef.leaf_paths();
        let shown: Vec<String> = paths.iter().map(ToString::to_string).collect();
        assert_eq!(case["keystr"], Value::from(shown));
        let joined: Vec<String> = paths.iter().map(|path| path.join("/")).collect();
        assert_eq!(case["keystr_simple"], Value::from(joined));
    }
    assert!(compared >= 40, "{compared} cases were compared");
}
