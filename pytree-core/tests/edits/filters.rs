//! Which leaves a filter accepts, how it is shown, and what it does with a path that is not there.
//!
//! With `parts.rs` this covers what Flax NNX shows of its filters: kinds and collections, everything and nothing, parts of
//! paths and of names, types, predicates; any, all and not of them in each other; the first that accepts a leaf has it,
//! everything is only the last, and what no filter accepts is an error.

use pytree_core::kind::BatchStat;
use pytree_core::{AnyLeaf, Filter, LeafKind, Partition, Tree, TreeError, graph, partition, tree};

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
fn filter_distinguishes_kinds() {
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
fn filter_distinguishes_paths() {
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
fn predicate_is_called_for_each_leaf() {
    let large =
        Filter::predicate(|_, leaf| leaf.downcast_ref::<f32>().is_some_and(|&leaf| leaf > 2.5));
    assert_eq!(accepted(&large), ["count", "layer.weight", "layer.bias"]);
    let short = Filter::predicate(|path, _| path.to_string().len() == 5);
    assert_eq!(accepted(&short), ["scale", "count"]);
}

/// As `nnx.PathContains(…, exact=False)`.
#[test]
fn predicate_matches_parts_of_names() {
    let middle = Filter::predicate(|path, _| path.to_string().contains("ca"));
    assert_eq!(accepted(&middle), ["scale"]);
    let ends = Filter::predicate(|path, _| path.join("/").ends_with("/bias"));
    assert_eq!(accepted(&ends), ["layer.bias"]);
}

/// As `nnx.Any`, `nnx.All` and `nnx.Not` of each other, and of lists known at run time.
#[test]
fn filters_can_be_nested() {
    let both = Filter::path("layer") & Filter::path_contains("bias");
    let either = both | Filter::state::<BatchStat>();
    assert_eq!(accepted(&either), ["mean", "layer.bias"]);
    assert_eq!(
        accepted(&!either.clone()),
        ["scale", "count", "layer.weight"]
    );
    assert_eq!(
        accepted(&(!either.clone() & !Filter::any_state())),
        ["scale", "layer.weight"]
    );
    assert_eq!(accepted(&!!either.clone()), accepted(&either));
    let names = ["mean", "count", "layer.bias"];
    let any = names.map(Filter::path).into_iter();
    let any = any.fold(Filter::nothing(), |any, path| any | path);
    assert_eq!(accepted(&any), names);
    let all = [Filter::param(), !Filter::path("layer")].into_iter();
    let all = all.fold(Filter::everything(), |all, filter| all & filter);
    assert_eq!(accepted(&all), ["scale"]);
}

#[test]
fn leaf_goes_to_first_accepting_filter() {
    let filters = [
        Filter::path("layer.bias"),
        Filter::param(),
        Filter::path("layer"),
        Filter::nothing(),
        Filter::state::<BatchStat>(),
        Filter::everything(),
    ];
    let parts = partition::split::<_, f32, 6>(&norm(), filters).unwrap();
    let found: Vec<Vec<String>> = parts.iter().map(paths).collect();
    assert_eq!(found[0], ["layer.bias"]);
    assert_eq!(found[1], ["scale", "layer.weight"]);
    assert!(found[2].is_empty() && found[3].is_empty());
    assert_eq!(found[4], ["mean"]);
    assert_eq!(found[5], ["count"]);
    assert_eq!(partition::merge(parts), Ok(norm()));
    // In another order others have them.
    let filters = [Filter::path("layer"), Filter::param(), Filter::any_state()];
    let [layer, params, states] = partition::split::<_, f32, 3>(&norm(), filters).unwrap();
    assert_eq!((layer.len(), params.len(), states.len()), (2, 1, 2));
}

#[test]
fn everything_must_be_last_in_split() {
    let split = |filters| partition::split::<_, f32, 3>(&norm(), filters);
    let everything = Filter::everything;
    let error = split([everything(), Filter::param(), Filter::path("mean")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`Filter::everything()` accepts all leaves, so no leaves are left for the filters after it: param and path(mean); put `Filter::everything()` last"
    );
    let error = split([Filter::param(), everything(), Filter::nothing()]).unwrap_err();
    assert_eq!(
        error,
        TreeError::AfterEverything {
            filters: vec!["nothing".to_owned()]
        }
    );
    // Of a part too.
    let [whole] = partition::split::<_, f32, 1>(&norm(), [everything()]).unwrap();
    let again = whole.split([everything(), Filter::param()]);
    assert!(matches!(again, Err(TreeError::AfterEverything { .. })));
    // Once more at the end it gets nothing, and a filter that happens to accept everything is one like others.
    let [params, rest, none] = split([Filter::param(), everything(), everything()]).unwrap();
    assert_eq!((params.len(), rest.len(), none.len()), (3, 2, 0));
    let [all, none, last] = split([
        Filter::param() | Filter::any_state(),
        Filter::param(),
        everything(),
    ])
    .unwrap();
    assert_eq!((all.len(), none.len(), last.len()), (5, 0, 0));
}

/// Each collection has a filter, so that none is left over.
#[test]
fn filters_covering_all_leaves_need_no_everything() {
    let [params, stats, states] = partition::split::<_, f32, 3>(
        &norm(),
        [
            Filter::param(),
            Filter::state::<BatchStat>(),
            Filter::any_state(),
        ],
    )
    .unwrap();
    assert_eq!((params.len(), stats.len(), states.len()), (3, 1, 1));
}

#[test]
fn filtering_part_returns_part() {
    let params: Partition<Norm, f32> = partition::filter(&norm(), &Filter::param());
    assert_eq!(params.filter(&Filter::param()), Ok(params.clone()));
    let biases = params.filter(&Filter::path_contains("bias")).unwrap();
    assert_eq!(paths(&biases), ["layer.bias"]);
    assert!(biases.filter(&Filter::any_state()).unwrap().is_empty());
    assert!(params.filter(&Filter::path("layr")).is_err());
}

#[test]
fn filter_distinguishes_leaf_types() {
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
fn missing_path_is_an_error_in_any_term() {
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
fn selecting_missing_path_panics() {
    let _: Partition<Norm, f32> = partition::filter(&norm(), &Filter::path("laier"));
}

#[test]
fn filters_display_as_written() {
    for (filter, shown) in [
        (Filter::everything(), "everything"),
        (Filter::nothing(), "nothing"),
        (!Filter::param(), "!param"),
        (Filter::any_state(), "any_state"),
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

#[test]
fn many_terms_decide_like_single_terms() {
    let paths = ["a", "a.b", "a[0]", "b[1].c", "b[10]", "c", "['a']", "d.e.f"];
    let places = [
        "a", "a.b.c", "a[0]", "a[1]", "ab", "b[1]", "b[1].c.d", "b[1].d", "b[10][3]", "b[2]",
        "c.x", "['a'].x", "d.e", "d.e.f", "d.e.g", "e",
    ];
    let any = paths
        .map(Filter::path)
        .into_iter()
        .reduce(|all, path| all | path)
        .unwrap();
    let none = paths
        .map(|path| !Filter::path(path))
        .into_iter()
        .reduce(|all, path| all & path);
    let (none, kind) = (none.unwrap(), Filter::param());
    for place in places {
        let path = place.parse().unwrap();
        let expected = paths
            .iter()
            .any(|path_of| Filter::path(path_of).accepts(&path, None, &1.0));
        assert_eq!(any.accepts(&path, None, &1.0), expected, "{place}");
        assert_eq!(none.accepts(&path, None, &1.0), !expected, "{place}");
        let param = Some(LeafKind::Param);
        assert!((any.clone() | kind.clone()).accepts(&path, param, &1.0));
        assert!((kind.clone() & any.clone() | !kind.clone()).accepts(&path, None, &1.0));
        assert_eq!(
            (none.clone() & kind.clone()).accepts(&path, param, &1.0),
            !expected
        );
        assert!(!(none.clone() & kind.clone()).accepts(&path, None, &1.0));
    }
}

#[test]
fn hundred_thousand_terms_do_not_recurse() {
    let work = || {
        let values = vec![1.0_f32; 100_000];
        let path = |number: usize| Filter::path(format!("[{number}]"));
        let left = (1..values.len()).fold(path(0), |all, number| all | path(number));
        let right = (1..values.len()).fold(path(0), |all, number| path(number) | all);
        let not = (1..values.len()).fold(!path(0), |all, number| all & !path(number));
        for filter in [left, right, !not] {
            let part: Partition<_, f32> = partition::filter(&values, &filter);
            assert_eq!(part.leaves().len(), values.len());
            assert!(format!("{:?}", filter.clone()).contains("path([99999])"));
        }
        let absent = (0..values.len()).fold(path(200_000), |all, number| path(number) | all);
        let error = absent.check(&tree::structure(&values)).unwrap_err();
        assert!(error.to_string().contains("[200000]"), "{error}");
    };
    // The stack of any thread that is not the first.
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn filter_terms_display_without_nesting() {
    let filter = Filter::param() | Filter::path("a") | Filter::path("b") & !!Filter::any_state();
    assert_eq!(
        format!("{filter:?}"),
        "(param | path(a) | (path(b) & any_state))"
    );
}

#[derive(Module, Clone, Debug)]
struct Language {
    embedding: Embedding,
    head: Embedding,
    #[param]
    bias: f32,
}

#[derive(Module, Clone, Debug)]
struct Embedding {
    #[param]
    weight: Shared<f32>,
}

fn language() -> Language {
    let weight = Shared::new(1.0_f32);
    Language {
        embedding: Embedding {
            weight: weight.clone(),
        },
        head: Embedding { weight },
        bias: 2.0,
    }
}

#[test]
fn shared_leaf_is_selected_by_any_of_its_places() {
    let model = language();
    let leaves = |filter: &Filter| -> Vec<f32> {
        let part = partition::filter::<_, f32>(&model, filter);
        let (leaves, treedef) = graph::flatten::<f32, _>(&model);
        let chosen = filter.choose(&treedef, &leaves).unwrap();
        let chosen = leaves.into_iter().zip(chosen).filter(|(_, chosen)| *chosen);
        let chosen: Vec<f32> = chosen.map(|(leaf, _)| leaf).collect();
        assert_eq!(part.leaves(), chosen);
        chosen
    };
    for place in ["embedding", "head", "head.weight", "embedding.weight"] {
        assert_eq!(leaves(&Filter::path(place)), [1.0], "{place}");
        assert_eq!(leaves(&!Filter::path(place)), [2.0], "{place}");
        let both = Filter::path(place) | Filter::path("bias");
        assert_eq!(leaves(&both), [1.0, 2.0], "{place}");
        assert_eq!(leaves(&(Filter::param() & !Filter::path(place))), [2.0]);
    }
    for name in ["embedding", "head", "weight"] {
        assert_eq!(leaves(&Filter::path_contains(name)), [1.0], "{name}");
        assert_eq!(leaves(&!Filter::path_contains(name)), [2.0], "{name}");
    }
}

#[test]
fn leaf_of_a_part_is_found_at_any_of_its_places() {
    let model = language();
    let mut part = partition::filter::<_, f32>(&model, &Filter::everything());
    assert_eq!(part.get("head.weight").unwrap(), &1.0);
    assert_eq!(part["embedding.weight"], 1.0);
    assert_eq!(part.insert("head.weight", 5.0).unwrap(), Some(1.0));
    assert_eq!(part["embedding.weight"], 5.0);
    assert_eq!(part.remove("head.weight").unwrap(), 5.0);
    let absent = part.get("head.weight").unwrap_err().to_string();
    assert!(
        absent.starts_with("the leaf at head.weight is absent"),
        "{absent}"
    );
    assert_eq!(part.insert("head.weight", 6.0).unwrap(), None);
    assert_eq!(part["embedding.weight"], 6.0);
    let misspelt = part.get("head.wieght").unwrap_err().to_string();
    assert_eq!(
        misspelt,
        "no leaf at head.wieght; did you mean `head.weight`?"
    );
    let subtree = part.tree().at("head.weight").unwrap();
    assert_eq!(subtree.leaves(), [6.0]);
}

#[test]
fn predicate_receives_kind_and_collection() {
    let batch = Filter::predicate_with_kind(
        |_, kind, _| matches!(kind, Some(LeafKind::State(collection)) if collection.name() == "BatchStat"),
    );
    let part = partition::filter::<_, f32>(&norm(), &batch);
    assert_eq!(
        part.leaves(),
        partition::filter::<_, f32>(&norm(), &Filter::state::<BatchStat>()).leaves()
    );
    assert_eq!(part.leaves(), [2.0]);
    let params = Filter::predicate_with_kind(|_, kind, _| kind == Some(LeafKind::Param));
    assert_eq!(
        partition::filter::<_, f32>(&norm(), &params).leaves(),
        partition::filter::<_, f32>(&norm(), &Filter::param()).leaves()
    );
}

#[test]
fn filters_are_given_as_a_slice() {
    let filters = [Filter::path("scale"), Filter::path_contains("mean")];
    let leaves = |filter: &Filter| {
        partition::filter::<_, f32>(&norm(), filter)
            .leaves()
            .to_vec()
    };
    assert_eq!(leaves(&Filter::any_of(&filters)), [1.0, 2.0]);
    assert!(leaves(&Filter::all_of(&filters)).is_empty());
    assert_eq!(
        leaves(&Filter::all_of([Filter::param(), Filter::path("scale")])),
        [1.0]
    );
    let none: [Filter; 0] = [];
    assert!(leaves(&Filter::any_of(&none)).is_empty());
    assert_eq!(
        leaves(&Filter::all_of(&none)),
        leaves(&Filter::everything())
    );
    let filters = vec![
        Filter::param(),
        Filter::state::<BatchStat>(),
        Filter::everything(),
    ];
    let parts = partition::split_all::<_, f32>(&norm(), &filters).unwrap();
    let [params, batch, rest] = partition::split::<_, f32, 3>(
        &norm(),
        [filters[0].clone(), filters[1].clone(), filters[2].clone()],
    )
    .unwrap();
    assert_eq!(parts, [params, batch, rest]);
    assert_eq!(partition::merge(parts).unwrap(), norm());
    assert!(matches!(
        partition::split_all::<_, f32>(&norm(), &filters[..2]),
        Err(TreeError::Unassigned { .. })
    ));
}

#[test]
fn flags_of_shared_leaves_agree() {
    let model = language();
    let mut flags = tree::map_to(&model, |_: &f32| false);
    *flags.get_mut("embedding.weight").unwrap() = true;
    assert_eq!(
        partition::split_by_flags::<_, f32>(&model, &flags)
            .unwrap_err()
            .to_string(),
        "cannot split by flags: the shared leaf at head.weight has a different flag at another path; give the leaf the same flag at all its paths"
    );
    *flags.get_mut("head.weight").unwrap() = true;
    let [chosen, rest] = partition::split_by_flags::<_, f32>(&model, &flags).unwrap();
    assert_eq!(
        (chosen.leaves(), rest.leaves()),
        ([1.0].as_slice(), [2.0].as_slice())
    );
    let flags = graph::map_to(&model, |leaf: &f32| *leaf > 1.5);
    let [chosen, _] = partition::split_by_flags::<_, f32>(&model, &flags).unwrap();
    assert_eq!(chosen.leaves(), [2.0]);
    let misfit = tree!([true]).cast().unwrap();
    assert!(matches!(
        partition::split_by_flags::<_, f32>(&model, &misfit),
        Err(TreeError::Prefix { .. })
    ));
}

#[test]
fn wrong_paths_of_filters_are_errors() {
    let error = Filter::try_path("a[").unwrap_err();
    assert!(matches!(error, TreeError::PathSyntax { .. }), "{error}");
    let filter = Filter::try_path("[2]").unwrap();
    let error = partition::try_filter::<Vec<f64>, f64>(&vec![1.0, 2.0], &filter).unwrap_err();
    assert!(matches!(error, TreeError::NoLeaf { .. }), "{error}");
    let filter = Filter::try_path("[1]").unwrap();
    let part = partition::try_filter::<Vec<f64>, f64>(&vec![1.0, 2.0], &filter).unwrap();
    assert_eq!(part.leaves(), [2.0]);
}
