//! Which leaves a filter accepts, how it is shown, and what it does with a path that is not there.

use pytree_core::kind::BatchStat;
use pytree_core::{AnyLeaf, Filter, Partition, Tree, TreeError, partition, tree};

use super::*;

#[derive(Module, Clone, Debug, PartialEq)]
struct Norm {
    #[param]
    scale: f32,
    #[state(BatchStat)]
    mean: f32,
    #[state]
    count: f32,
    layer: Linear,
}

fn norm() -> Norm {
    Norm {
        scale: 1.0,
        mean: 2.0,
        count: 3.0,
        layer: linear(4.0),
    }
}

fn paths<M>(part: &Partition<M, f32>) -> Vec<String> {
    part.iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect()
}

/// What a filter accepts, alone or before one that takes what is left.
fn accepted(filter: &Filter) -> Vec<String> {
    let alone: Partition<Norm, f32> = partition::filter(&norm(), filter);
    let [first, rest] =
        partition::split::<_, f32, 2>(&norm(), [filter.clone(), Filter::everything()]).unwrap();
    assert_eq!(alone, first, "{filter:?}");
    assert_eq!(first.len() + rest.len(), 5, "{filter:?}");
    assert!(
        paths(&rest)
            .iter()
            .all(|path| !paths(&first).contains(path))
    );
    paths(&alone)
}

const ALL: [&str; 5] = ["scale", "mean", "count", "layer.weight", "layer.bias"];

#[test]
fn kinds_are_told_apart() {
    let params = ["scale", "layer.weight", "layer.bias"];
    let none: [&str; 0] = [];
    assert_eq!(accepted(&Filter::everything()), ALL);
    assert_eq!(accepted(&Filter::nothing()), none);
    assert_eq!(accepted(&Filter::param()), params);
    assert_eq!(accepted(&Filter::any_state()), ["mean", "count"]);
    assert_eq!(accepted(&Filter::state::<BatchStat>()), ["mean"]);
    assert_eq!(accepted(&!Filter::param()), ["mean", "count"]);
    assert_eq!(accepted(&!Filter::everything()), none);
    assert_eq!(accepted(&(Filter::param() & Filter::any_state())), none);
    assert_eq!(
        accepted(&(Filter::any_state() & !Filter::state::<BatchStat>())),
        ["count"]
    );
    assert_eq!(accepted(&(Filter::param() & !Filter::any_state())), params);
    assert_eq!(accepted(&(Filter::param() | Filter::any_state())), ALL);
    assert_eq!(
        accepted(&(Filter::param() | Filter::state::<BatchStat>())),
        ["scale", "mean", "layer.weight", "layer.bias"]
    );
}

#[test]
fn paths_are_told_apart() {
    let layer = ["layer.weight", "layer.bias"];
    let none: [&str; 0] = [];
    assert_eq!(accepted(&Filter::path("layer")), layer);
    assert_eq!(accepted(&Filter::path("layer.bias")), ["layer.bias"]);
    assert_eq!(accepted(&Filter::path("")), ALL);
    assert_eq!(
        accepted(&!Filter::path("layer")),
        ["scale", "mean", "count"]
    );
    assert_eq!(accepted(&(Filter::path("layer") & Filter::param())), layer);
    assert_eq!(
        accepted(&(Filter::path("layer") & Filter::any_state())),
        none
    );
    assert_eq!(
        accepted(&(Filter::path("layer") | Filter::any_state())),
        ["mean", "count", "layer.weight", "layer.bias"]
    );
    assert_eq!(accepted(&Filter::path_contains("weight")), ["layer.weight"]);
    assert_eq!(accepted(&Filter::path_contains("scale")), ["scale"]);
    assert_eq!(accepted(&Filter::path_contains("layer")), layer);
    assert_eq!(accepted(&Filter::path_contains("wei")), none);
}

#[test]
fn a_predicate_is_asked_for_each_leaf() {
    let large =
        Filter::predicate(|_, leaf| leaf.downcast_ref::<f32>().is_some_and(|&leaf| leaf > 2.5));
    assert_eq!(accepted(&large), ["count", "layer.weight", "layer.bias"]);
    let short = Filter::predicate(|path, _| path.to_string().len() == 5);
    assert_eq!(accepted(&short), ["scale", "count"]);
}

#[test]
fn types_of_leaves_are_told_apart() {
    let tree: Tree = tree!([1.5_f32, 2_i32, "a"]);
    let shown = |filter| {
        let part: Partition<Tree, AnyLeaf> = partition::filter(&tree, &filter);
        part.to_string()
    };
    assert_eq!(shown(Filter::leaf_type::<f32>()), "[1.5, -, -]");
    assert_eq!(shown(Filter::leaf_type::<i32>()), "[-, 2, -]");
    assert_eq!(shown(!Filter::leaf_type::<i32>()), "[1.5, -, 'a']");
    assert_eq!(shown(Filter::leaf_type::<f64>()), "[-, -, -]");
}

#[test]
fn a_path_that_is_not_there_is_an_error_wherever_it_stands() {
    let misspelt = || Filter::path("layr.bias");
    for filter in [
        misspelt(),
        !misspelt(),
        Filter::param() & misspelt(),
        misspelt() & Filter::param(),
        Filter::everything() | misspelt(),
        misspelt() | Filter::path("layer"),
    ] {
        let error = partition::split::<_, f32, 2>(&norm(), [filter.clone(), Filter::everything()])
            .unwrap_err();
        assert_eq!(
            error,
            TreeError::NoLeaf {
                path: "layr.bias".parse().unwrap(),
                nearest: Some("layer.bias".parse().unwrap()),
            },
            "{filter:?}"
        );
    }
    let treedef = tree::structure(&norm());
    assert_eq!(
        Filter::path("laier")
            .check(&treedef)
            .unwrap_err()
            .to_string(),
        "no leaf at laier; did you mean `layer`?"
    );
    for there in ["layer", "layer.weight", "mean", ""] {
        assert_eq!(Filter::path(there).check(&treedef), Ok(()), "{there}");
    }
    assert_eq!(Filter::param().check(&treedef), Ok(()));
}

#[test]
#[should_panic(expected = "cannot select a part: no leaf at laier; did you mean `layer`?")]
fn to_select_at_a_path_that_is_not_there_panics() {
    let _: Partition<Norm, f32> = partition::filter(&norm(), &Filter::path("laier"));
}

#[test]
fn filters_are_shown_as_they_are_written() {
    for (filter, shown) in [
        (Filter::everything(), "everything"),
        (Filter::nothing(), "nothing"),
        (!Filter::param(), "!param"),
        (Filter::any_state(), "state"),
        (Filter::state::<BatchStat>(), "state(BatchStat)"),
        (
            Filter::param() & Filter::path("a[0].b"),
            "(param & path(a[0].b))",
        ),
        (
            Filter::path_contains("w") | Filter::leaf_type::<f32>(),
            "(path_contains(w) | type(f32))",
        ),
        (Filter::predicate(|_, _| true), "predicate"),
    ] {
        assert_eq!(format!("{filter:?}"), shown);
    }
}
