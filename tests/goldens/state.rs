//! States display as in Flax NNX.

use pytree::core::{Annotated, AnyLeaf, CollectionId, FieldKind, StaticData, TreeBuilder};
use pytree::{Tensor, Tree};
use serde_json::Value;

use crate::goldens::files::{dtype, lengths, read, tensor};

/// What Flax prints, in our words: `Array([1.], dtype=float32)` is `Tensor([1.], dtype=f32)`, whose further lines are
/// indented by one more space unless they are blank, and there are no weak types.
pub(crate) fn in_our_words(text: &str) -> String {
    let mut translated = String::new();
    let mut array_is_open = false;
    for line in text.split_inclusive('\n') {
        if array_is_open && !line.trim().is_empty() {
            translated.push(' ');
        }
        translated.push_str(line);
        if let Some(last) = line.rfind("Array(") {
            array_is_open = !line[last..].contains("dtype=");
        } else if line.contains("dtype=") {
            array_is_open = false;
        }
    }
    [
        ("Array(", "Tensor("),
        ("float32", "f32"),
        ("int32", "i32"),
        (", weak_type=True", ""),
    ]
    .iter()
    .fold(translated, |text, (theirs, ours)| {
        text.replace(theirs, ours)
    })
}

/// What we print. Where elements are left out our arrays tell their shape, as NumPy's do; Flax's do not.
fn without_shape(text: &str) -> String {
    match text.split_once("shape=(") {
        Some((before, after)) if text.contains("...") => {
            let (_, after) = after.split_once(')').unwrap();
            format!("{}{after}", before.trim_end().trim_end_matches(','))
        }
        _ => text.to_owned(),
    }
}

fn array(value: &Value) -> Tensor {
    match value.get("zeros") {
        Some(shape) => Tensor::zeros(dtype(value["dtype"].as_str().unwrap()), lengths(shape)),
        None => tensor(value),
    }
}

fn pairs(value: &Value) -> Vec<(&Value, &Value)> {
    let pairs = value.as_array().unwrap().iter();
    pairs.map(|pair| (&pair[0], &pair[1])).collect()
}

fn kind(name: &str) -> FieldKind {
    match name {
        "Param" => FieldKind::Param,
        name => FieldKind::State(CollectionId::named(name).unwrap()),
    }
}

/// The value of a variable.
fn value(builder: &mut TreeBuilder, given: &Value) {
    if let Some(items) = given.get("tuple") {
        builder.begin_tuple();
        items
            .as_array()
            .unwrap()
            .iter()
            .for_each(|item| value(builder, item));
        builder.end();
    } else if let Some(items) = given.get("list") {
        builder.begin_list();
        items
            .as_array()
            .unwrap()
            .iter()
            .for_each(|item| value(builder, item));
        builder.end();
    } else if let Some(entries) = given.get("map") {
        builder.begin_dict();
        for (key, item) in pairs(entries) {
            builder.key(key.as_str().unwrap().to_owned());
            value(builder, item);
        }
        builder.end();
    } else {
        builder.leaf(AnyLeaf::new(array(given)));
    }
}

fn data(given: &Value) -> StaticData {
    match given {
        Value::Bool(flag) => StaticData::Bool(*flag),
        Value::Number(number) => StaticData::Integer(number.as_i64().unwrap().into()),
        Value::String(text) => StaticData::Text(text.clone()),
        other => StaticData::Tuple(
            other["tuple"]
                .as_array()
                .unwrap()
                .iter()
                .map(data)
                .collect(),
        ),
    }
}

fn variable(builder: &mut TreeBuilder, given: &Value) {
    let metadata = pairs(&given["metadata"]);
    if metadata.is_empty() {
        return value(builder, &given["value"]);
    }
    let annotated = metadata.into_iter().fold(
        Annotated::new(array(&given["value"])),
        |value, (name, said)| value.with(name.as_str().unwrap(), data(said)),
    );
    builder.subtree(Tree::of(&annotated));
}

/// A dictionary that has variables is a struct, whose fields have their kinds.
fn tree(builder: &mut TreeBuilder, given: &Value) {
    let Some(entries) = given.get("dict") else {
        builder.leaf(AnyLeaf::new(array(&given["leaf"])));
        return;
    };
    let entries = pairs(entries);
    if entries
        .iter()
        .any(|(_, child)| child.get("variable").is_some())
    {
        let fields: Vec<(&str, Option<FieldKind>)> = entries
            .iter()
            .map(|(key, child)| {
                let kind = child
                    .get("variable")
                    .map(|name| kind(name.as_str().unwrap()));
                (key.as_str().unwrap(), kind)
            })
            .collect();
        builder.begin_struct("Module", &fields, Vec::new());
    } else {
        builder.begin_dict();
    }
    let is_struct = entries
        .iter()
        .any(|(_, child)| child.get("variable").is_some());
    for (key, child) in entries {
        if !is_struct {
            match key.as_i64() {
                Some(number) => builder.key(number),
                None => builder.key(key.as_str().unwrap().to_owned()),
            };
        }
        match child.get("variable") {
            Some(_) => variable(builder, child),
            None => tree(builder, child),
        }
    }
    builder.end();
}

#[test]
fn states_display_as_those_of_flax() {
    let file = read("state.json");
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 29);
    for case in cases {
        let mut builder = TreeBuilder::new();
        tree(&mut builder, &case["tree"]);
        let tree = builder.finish().unwrap();
        let expected = in_our_words(case["text"].as_str().unwrap());
        let shown = without_shape(&tree.state().to_string());
        assert_eq!(shown, expected, "{}", case["name"]);
    }
}
