//! Treedefs of all versions.

use std::collections::BTreeMap;

use pytree::kind::Param;
use pytree::prelude::*;
use pytree::{Collection, Static, TreeBuilder, TreeDef, WeakShared};

use crate::formats::fixture;

#[derive(Clone, Debug, PartialEq, Static)]
enum Rate {
    Never,
    Drop { rate: f64 },
}

#[derive(Clone, Debug, Module)]
struct Layer {
    #[param]
    weight: f32,
    #[state(BatchStat)]
    mean: Option<f32>,
    #[r#static]
    size: (usize, u64),
    #[r#static]
    name: String,
    #[r#static]
    rates: Vec<Rate>,
    #[r#static]
    limits: BTreeMap<i8, bool>,
    #[r#static]
    activation: fn(f32) -> f32,
}

#[derive(Clone, Debug, Pytree)]
enum Choice {
    Nothing,
    One(f32),
    Two { left: f32, right: Vec<f32> },
}

fn half(x: f32) -> f32 {
    x / 2.0
}

fn layer(mean: Option<f32>) -> Layer {
    Layer {
        weight: 0.5,
        mean,
        size: (3, u64::MAX),
        name: "é \"quoted\"".to_owned(),
        rates: vec![Rate::Never, Rate::Drop { rate: -0.0 }],
        limits: BTreeMap::from([(-1, true), (2, false)]),
        activation: half,
    }
}

/// The structure is what every version's bytes of that name hold, and is shown as it is written here.
fn in_all_versions(name: &str, treedef: &TreeDef, shown: &str, paths: &[&str]) {
    since(1, name, treedef, shown, paths);
}

/// The same for the versions from `first` on.
fn since(first: u8, name: &str, treedef: &TreeDef, shown: &str, paths: &[&str]) {
    let bytes = treedef.to_bytes();
    assert_eq!(&bytes[..4], b"PYTD");
    let current = bytes[4];
    for version in first..=current {
        let file = format!("treedef-v{version}-{name}.bin");
        let path = fixture(&file, version == current, |path| {
            std::fs::write(path, &bytes).unwrap();
        });
        let stored = std::fs::read(path).unwrap();
        assert_eq!(stored[4], version, "{file}");
        let read = TreeDef::from_bytes(&stored).unwrap();
        assert_eq!(read, TreeDef::from_bytes(&bytes).unwrap(), "{file}");
        // Of a function bytes hold a text only.
        if !shown.contains("a function") {
            assert_eq!(read, *treedef, "{file}");
        }
        assert_eq!(read.content_hash(), treedef.content_hash(), "{file}");
        assert_eq!(read.to_string(), shown, "{file}");
        let found: Vec<String> = read.leaf_paths().iter().map(ToString::to_string).collect();
        assert_eq!(found, paths, "{file}");
        if version == current {
            assert_eq!(stored, bytes, "{file}: other bytes are another version");
        }
    }
}

#[test]
fn leaf_and_containers_are_read() {
    in_all_versions("leaf", &TreeDef::leaf(), "PyTreeDef(*)", &[""]);
    let mixed = tree!({"b": [1, None], 2: (3, {"z": 1, "a": 2}), (1, "x"): [], 0.5: 4, true: 5});
    in_all_versions(
        "containers",
        mixed.treedef(),
        "PyTreeDef({True: *, 2: (*, {'a': *, 'z': *}), 0.5: *, 'b': [*, None], (1, 'x'): []})",
        &[
            "[True]",
            "[2][0]",
            "[2][1]['a']",
            "[2][1]['z']",
            "[0.5]",
            "['b'][0]",
        ],
    );
    let mut builder = TreeBuilder::new();
    builder.begin_ordered_dict().key("b").leaf(1);
    builder.key("a").begin_named_tuple("Point", &["x", "y"]);
    builder.leaf(2).leaf(3).end().end();
    let ordered: Tree<i32> = builder.finish().unwrap();
    in_all_versions(
        "ordered",
        ordered.treedef(),
        "PyTreeDef(CustomNode(OrderedDict[('b', 'a')], [*, CustomNode(namedtuple[Point], [*, *])]))",
        &["['b']", "['a'].x", "['a'].y"],
    );
}

#[test]
fn structs_with_static_fields_are_read() {
    let structure = tree::structure(&vec![layer(Some(2.0)), layer(None)]);
    let layer = |mean: &str| {
        format!(
            "Layer {{ weight: *, mean: {mean}, size = (3, 18446744073709551615), name = 'é \"quoted\"', \
             rates = [Never, Drop {{ rate: -0.0 }}], limits = {{-1: True, 2: False}}, activation = a function }}"
        )
    };
    let shown = format!("PyTreeDef([{}, {}])", layer("*"), layer("None"));
    in_all_versions(
        "structs",
        &structure,
        &shown,
        &["[0].weight", "[0].mean", "[1].weight"],
    );
    let choices = vec![
        Choice::Nothing,
        Choice::One(1.0),
        Choice::Two {
            left: 1.0,
            right: vec![2.0],
        },
    ];
    in_all_versions(
        "choices",
        &tree::structure(&choices),
        "PyTreeDef([Choice::Nothing, Choice::One(*), Choice::Two { left: *, right: [*] }])",
        &["[1].0", "[2].left", "[2].right[0]"],
    );
}

#[derive(Collection)]
#[collection(parent = Param)]
struct Adapter;

#[derive(Collection)]
#[collection(parent = Adapter)]
struct Scale;

#[derive(Collection)]
#[collection(parent = BatchStat)]
struct Average;

#[derive(Clone, Debug, Module)]
struct Adapted {
    #[param(Adapter)]
    down: f32,
    #[param(Scale)]
    scale: f32,
    #[state(Average)]
    average: f32,
}

#[test]
fn collections_with_parents_are_read() {
    let adapted = Adapted {
        down: 1.0,
        scale: 2.0,
        average: 3.0,
    };
    let structure = tree::structure(&adapted);
    since(
        2,
        "collections",
        &structure,
        "PyTreeDef(Adapted { down: *, scale: *, average: * })",
        &["down", "scale", "average"],
    );
    let read = TreeDef::from_bytes(&structure.to_bytes()).unwrap();
    assert_eq!(read.leaf_kinds(), structure.leaf_kinds());
}

#[test]
fn graphs_are_read() {
    let shared = Shared::new(vec![1.0_f32]);
    let cell = Ref::param(2.0_f32);
    let edges = (
        (shared.clone(), Shared::downgrade(&shared)),
        (cell.clone(), Ref::downgrade(&cell)),
        (shared, Ref::new(1.0_f32), WeakShared::<Vec<f32>>::new()),
    );
    in_all_versions(
        "graph",
        &graph::structure(&edges),
        "PyTreeDef((([*], alias 0), (*, alias 1), (alias 0, *, alias of nothing)))",
        &["[0][0][0]", "[1][0]", "[2][1]"],
    );
}

#[test]
fn absent_leaves_are_read() {
    let model = vec![1.0_f32, 2.0, 3.0];
    let [part, _] = partition::split(&model, [Filter::path("[1]"), Filter::everything()]).unwrap();
    in_all_versions(
        "absent",
        part.tree().treedef(),
        "PyTreeDef([-, *, -])",
        &["[1]"],
    );
}

#[test]
fn parts_of_values_that_hold_parts_are_read() {
    // In each split, the leaves that are absent before it are absent in the whole.
    let part = |whole: Tree<i32>, path: &str| {
        partition::filter::<_, i32>(&whole, &!Filter::path(path)).into_tree()
    };
    let first = part(tree!((1, 2, 3, 4)).cast().unwrap(), "[3]");
    let third = part(part(first, "[2]"), "[1]");
    since(
        3,
        "splits",
        third.treedef(),
        "PyTreeDef((*, -, -, -))",
        &["[0]"],
    );
}
