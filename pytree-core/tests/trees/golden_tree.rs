//! The trees of the golden file.

use pytree_core::{StaticBox, Tree};
use serde_json::Value;

/// The members of the golden file.
pub fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/trees.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The tree that a case describes.
pub fn tree_of(case: &Value) -> Tree<i64> {
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

fn entries_of(entries: &Value) -> Vec<(StaticBox, Tree<i64>)> {
    let entries = entries.as_array().unwrap().iter();
    entries
        .map(|entry| (key_of(&entry[0]), tree_of(&entry[1])))
        .collect()
}

fn key_of(key: &Value) -> StaticBox {
    match key.as_i64() {
        Some(key) => StaticBox::new(key),
        None => StaticBox::new(key.as_str().unwrap().to_owned()),
    }
}

pub fn texts(values: &Value) -> Vec<String> {
    let values = values.as_array().unwrap().iter();
    values
        .map(|value| value.as_str().unwrap().to_owned())
        .collect()
}
