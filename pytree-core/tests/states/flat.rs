use pytree_core::{
    Filter, KeyPath, Partition, PlaceProblem, Tree, TreeError, graph, partition, tree,
};

use crate::states::{Mlp, Tied, mlp, path, tied};

fn problems(error: TreeError) -> Vec<PlaceProblem> {
    match error {
        TreeError::Places { problems, .. } => problems,
        other => panic!("{other}"),
    }
}

#[test]
fn flat_state_in_any_order_round_trips() {
    let whole = Tree::from_value(&mlp());
    let mut flat = whole.to_flat();
    assert_eq!(flat[0].0.to_string(), "blocks[0].linear.weight[0]");
    flat.reverse();
    let back = Tree::from_flat(whole.treedef(), flat).unwrap();
    assert_eq!(back.to_value::<Mlp>().unwrap(), mlp());
}

#[test]
fn all_problems_are_reported_at_once() {
    let treedef = graph::structure(&mlp());
    let entries = [
        ("blocks[0].mean", 1.0_f32),
        ("blocks[0].mean", 2.0),
        ("blocks[0].men", 3.0),
        ("blocks[2].mean", 3.0),
    ];
    let entries = entries.map(|(text, leaf)| (path(text), leaf));
    let error = Tree::from_flat(&treedef, entries).unwrap_err();
    let text = error.to_string();
    for part in [
        "cannot build a tree of a flat state: 13 places",
        "blocks[0].mean is given more than once",
        "blocks[0].men does not exist; did you mean `blocks[0].mean`?",
        "blocks[2].mean does not exist; did you mean `blocks[0].mean`?",
        "blocks[1].sown[1] is missing",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let missing = |problem: &&PlaceProblem| matches!(problem, PlaceProblem::Missing(_));
    assert_eq!(problems(error).iter().filter(missing).count(), 10);
}

#[test]
fn part_is_built_from_some_leaves() {
    let treedef = graph::structure(&mlp());
    let part =
        Partition::<Mlp, f32>::from_flat(&treedef, [(path("blocks[1].mean"), -1.0)]).unwrap();
    assert_eq!(part.to_flat(), [(path("blocks[1].mean"), -1.0)]);
    assert_eq!(
        partition::replace(&mlp(), &part).unwrap().blocks[1].mean,
        -1.0
    );
    let empty = Partition::<Mlp, f32>::from_flat(&treedef, []).unwrap();
    assert!(empty.is_empty());
}

#[test]
fn later_place_of_shared_leaf_is_reported() {
    let treedef = graph::structure(&tied());
    let entries = [(path("head"), 1.0_f32), (path("scale"), 2.0)];
    let error = Partition::<Tied, f32>::from_flat(&treedef, entries).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("head and embed are the same leaf; pass the leaf once, at the second path"),
        "{error}"
    );
}

#[test]
fn nested_dictionaries_need_no_structure() {
    let entries = |texts: &[&str]| -> Vec<(KeyPath, i32)> {
        texts.iter().map(|text| path(text)).zip(0..).collect()
    };
    let nested = Tree::nested(entries(&["b['x']", "a[10]", "a[9]"])).unwrap();
    assert_eq!(nested.to_string(), "{'a': {9: 2, 10: 1}, 'b': {'x': 0}}");
    assert_eq!(Tree::nested(entries(&[""])).unwrap(), Tree::leaf(0));
    assert_eq!(Tree::<i32>::nested([]).unwrap().to_string(), "{}");
    let wrong = entries(&["a.b", "a.b", "a", "a.b.c", "d"]);
    let found = problems(Tree::nested(wrong).unwrap_err());
    assert_eq!(
        found,
        [
            PlaceProblem::Twice(path("a.b")),
            PlaceProblem::BelowLeaf {
                path: path("a['b']"),
                leaf: path("a")
            },
            PlaceProblem::BelowLeaf {
                path: path("a.b.c"),
                leaf: path("a.b")
            },
        ]
    );
}

#[test]
fn leaves_are_inserted_and_removed_by_path() {
    let model = mlp();
    let mut part = partition::filter::<Mlp, f32>(&model, &Filter::path_contains("mean"));
    part["blocks[0].mean"] += 1.0;
    *part.get_mut("blocks[1].mean").unwrap() = 5.0;
    assert_eq!(part.leaves(), [11.0, 5.0]);
    assert_eq!(
        part.insert("blocks[0].linear.weight[1]", 0.25).unwrap(),
        None
    );
    assert_eq!(part.insert("blocks[0].mean", 3.0).unwrap(), Some(11.0));
    assert_eq!(part.leaves(), [0.25, 3.0, 5.0]);
    assert_eq!(part.remove("blocks[0].mean").unwrap(), 3.0);
    assert_eq!(part.leaves(), [0.25, 5.0]);
    let absent = part.remove("blocks[0].mean").unwrap_err();
    assert!(
        matches!(absent, TreeError::InAnotherPart { .. }),
        "{absent}"
    );
    let unknown = part.insert("blocks[0].wieght", 1.0).unwrap_err();
    assert!(matches!(unknown, TreeError::NoLeaf { .. }), "{unknown}");
    assert_eq!(part.leaves(), [0.25, 5.0]);
    let changed = partition::replace(&model, &part).unwrap();
    assert_eq!(changed.blocks[0].linear.weight, [1.0, 0.25]);
    assert_eq!(changed.blocks[1].mean, 5.0);
}

#[test]
fn state_is_mapped_with_paths() {
    let part = partition::filter::<Mlp, f32>(&mlp(), &Filter::path_contains("mean"));
    let lengths = part.map_with_path(|path, leaf| path.keys().len() as f32 + leaf);
    assert_eq!(lengths.leaves(), [13.0, 23.0]);
    let shown = tree!({"a": [1]}).map_with_path(|path, _| path.tuple());
    assert_eq!(shown.leaves(), ["('a', 0)"]);
}

/// As `state.b.d = …` and `del state['b']['c']` of an `nnx.State`.
#[test]
fn flat_state_entries_are_added_and_removed() {
    let state = Tree::nested([(path("a"), 1), (path("b.c"), 2)]).unwrap();
    let mut flat = state.to_flat();
    flat.push((path("b['d']"), 5));
    let grown = Tree::nested(flat).unwrap();
    assert_eq!(grown.to_string(), "{'a': 1, 'b': {'c': 2, 'd': 5}}");
    let mut flat = grown.to_flat();
    flat.retain(|(place, _)| *place != path("['b']['c']"));
    let shrunk = Tree::nested(flat).unwrap();
    assert_eq!(shrunk.to_string(), "{'a': 1, 'b': {'d': 5}}");
    assert!(shrunk.get("['b']['c']").is_err());
    assert_eq!(shrunk.get("['b']['d']"), Ok(&5));
}
