//! Filters that choose nothing.

use pytree_core::{Filter, Module, graph};

#[derive(Module, Clone, Debug)]
struct Line {
    #[param]
    slope: f32,
    #[state]
    count: f32,
}

fn chosen(filter: &Filter) -> Result<Vec<bool>, String> {
    let line = Line {
        slope: 1.0,
        count: 2.0,
    };
    let (leaves, treedef) = graph::flatten::<f32, _>(&vec![line.clone(), line]);
    filter
        .choose(&treedef, &leaves)
        .map_err(|error| error.to_string())
}

#[test]
fn choose_returns_accepted_leaves() {
    assert_eq!(
        chosen(&Filter::path_contains("slope")).unwrap(),
        [true, false, true, false]
    );
    assert_eq!(
        chosen(&Filter::path_contains("1")).unwrap(),
        [false, false, true, true]
    );
}

#[test]
fn misspelt_name_gets_suggestion() {
    assert_eq!(
        chosen(&Filter::path_contains("slop")).unwrap_err(),
        "the filter path_contains(slop) selects no leaf: no path contains the name `slop`; did you mean `slope`?"
    );
    let both = (Filter::path_contains("coun") & !Filter::param())
        & (Filter::path_contains("slope") | !Filter::path_contains("slop"));
    assert_eq!(
        chosen(&both).unwrap_err(),
        "the filter (path_contains(coun) & !param & (path_contains(slope) | !path_contains(slop))) selects no leaf: no path contains the name `coun`; did you mean `count`?: no path contains the name `slop`; did you mean `slope`?"
    );
}

#[test]
fn choose_rejects_empty_selection() {
    assert_eq!(
        chosen(&(Filter::param() & Filter::any_state())).unwrap_err(),
        "the filter (param & any_state) selects no leaf; the tree has 2 parameters and 2 states: use a kind and a path that exist in the tree"
    );
    assert!(
        chosen(&Filter::path("[2]"))
            .unwrap_err()
            .starts_with("no leaf at [2]"),
        "a missing path is reported as before"
    );
}
