//! Treedefs and key paths as JAX prints them: the cases of `tests/golden/trees.json`.

use pytree::Tree;
use pytree_core::StaticBox;
use serde_json::Value;

/// The tree that a case describes.
fn tree_of(case: &Value) -> Tree<i64> {
    let (kind, value) = case.as_object().unwrap().iter().next().unwrap();
    let children = || value.as_array().unwrap().iter().map(tree_of).collect();
    match kind.as_str() {
        "leaf" => Tree::leaf(value.as_i64().unwrap()),
        "none" => Tree::none(),
        "list" => Tree::list(children()),
        "tuple" => Tree::tuple(children()),
        "dict" => Tree::dict_of_any(entries_of(value)),
        "odict" => Tree::ordered_dict_of_any(entries_of(value)),
        "namedtuple" => {
            let fields = value["fields"].as_array().unwrap().iter();
            let fields = fields.map(|field| (field[0].as_str().unwrap(), tree_of(&field[1])));
            Tree::named_tuple(value["name"].as_str().unwrap(), fields.collect()).unwrap()
        }
        other => panic!("no tree is a {other}"),
    }
}

/// The entries of a map, whose keys are integers and texts.
fn entries_of(entries: &Value) -> Vec<(StaticBox, Tree<i64>)> {
    let key_of = |key: &Value| match key.as_i64() {
        Some(key) => StaticBox::new(key),
        None => StaticBox::new(key.as_str().unwrap().to_owned()),
    };
    let entries = entries.as_array().unwrap().iter();
    entries
        .map(|entry| (key_of(&entry[0]), tree_of(&entry[1])))
        .collect()
}

#[test]
fn treedefs_and_paths_display_like_jax() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/trees.json");
    let text = std::fs::read_to_string(path).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let tree = tree_of(&case["tree"]);
        let treedef = tree.treedef();
        assert_eq!(case["treedef"], treedef.to_string());
        assert_eq!(case["num_nodes"], treedef.num_nodes());
        assert_eq!(case["num_leaves"], treedef.num_leaves());
        assert_eq!(case["leaves"], Value::from(tree.leaves()));
        let paths = treedef.leaf_paths();
        // At the start of a path the dot of a field is left out here.
        let shown: Vec<String> = paths.iter().map(ToString::to_string).collect();
        let in_jax = case["keystr"].as_array().unwrap().iter();
        let in_jax: Vec<&str> = in_jax.map(|path| path.as_str().unwrap()).collect();
        let without_dot: Vec<&str> = in_jax
            .iter()
            .map(|path| path.strip_prefix('.').unwrap_or(path))
            .collect();
        assert_eq!(without_dot, shown);
        let joined: Vec<String> = paths.iter().map(|path| path.join("/")).collect();
        assert_eq!(case["keystr_simple"], Value::from(joined));
    }
    assert_eq!(cases.len(), 118);
}
