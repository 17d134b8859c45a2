//! Selectors of several places.

use pytree_core::{
    Filter, Ref, Shared, Tree, TreeError, WeakShared, at, at_each, graph, partition,
};

use super::*;

fn texts(paths: Result<Vec<KeyPath>, TreeError>) -> Vec<String> {
    paths.unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn places_keep_the_order_of_the_closure() {
    let model = mlp();
    let weights = at_each(|m: &Mlp| vec![&m.output.weight, &m.layers[0].weight]);
    assert_eq!(weights.get(&model), [&3.0, &1.0]);
    assert_eq!(
        texts(weights.paths(&model)),
        ["output.weight", "layers[0].weight"]
    );
    let changed = weights.replace(&model, [30.0, 10.0]).unwrap();
    let mut expected = mlp();
    expected.output.weight = 30.0;
    expected.layers[0].weight = 10.0;
    assert_eq!(changed, expected);
    assert_eq!(
        weights
            .clone()
            .update(&model, |weight| weight * 10.0)
            .unwrap(),
        expected
    );
    assert_eq!(format!("{weights:?}"), "EachSelector(f32 of Mlp)");
}

#[test]
fn no_place_leaves_the_model_unchanged() {
    let model = mlp();
    let none = at_each(|_: &Mlp| Vec::<&f32>::new());
    assert_eq!(none.replace(&model, []).unwrap(), model);
    assert_eq!(none.paths(&model).unwrap(), []);
    let part = partition::filter::<Mlp, f32>(&model, &none.filter(&model).unwrap());
    assert_eq!(part.len(), 0);
}

#[test]
fn values_may_have_other_structures() {
    type Model = (Vec<f32>, Option<f32>, Vec<f32>, Vec<f32>);
    let model: Model = (vec![1.0, 2.0], Some(3.0), vec![4.0], vec![5.0]);
    let lists = at_each(|m: &Model| vec![&m.3, &m.0, &m.2]);
    let changed = lists
        .replace(&model, [vec![], vec![6.0, 7.0, 8.0], vec![9.0]])
        .unwrap();
    assert_eq!(changed, (vec![6.0, 7.0, 8.0], Some(3.0), vec![9.0], vec![]));
}

#[test]
fn filter_accepts_leaves_of_all_places() {
    let model = tied();
    let leaves = |filter: Filter| {
        partition::filter::<Tied, f32>(&model, &filter)
            .leaves()
            .to_vec()
    };
    let each = at_each(|m: &Tied| vec![&*m.inner[0], &*m.inner[1]]);
    assert_eq!(leaves(each.filter(&model).unwrap()), [1.0, 1.5, 2.0, 2.5]);
    let weights = at_each(|m: &Tied| vec![&m.inner[0].weight, &m.inner[1].weight]);
    assert_eq!(leaves(weights.filter(&model).unwrap()), [1.0, 2.0]);
}

type Graph = (
    Shared<f32>,
    Vec<Ref<f32>>,
    f32,
    Shared<f32>,
    Vec<Ref<f32>>,
    Vec<f32>,
    Shared<Vec<f32>>,
    WeakShared<Vec<f32>>,
);

fn graph_model() -> Graph {
    let (shared, cell) = (Shared::new(1.0), Ref::new(2.0));
    let list = Shared::new(vec![5.0]);
    let weak = Shared::downgrade(&list);
    (
        shared.clone(),
        vec![cell.clone(), cell.clone()],
        3.0,
        shared,
        vec![cell],
        vec![4.0],
        list,
        weak,
    )
}

#[test]
fn shared_nodes_and_references_are_replaced_together() {
    let model = graph_model();
    let shared = at_each(|m: &Graph| vec![&m.3]);
    let changed = shared.replace(&model, [Shared::new(10.0)]).unwrap();
    assert!(changed.0.same(&changed.3) && *changed.0 == 10.0);

    // A list whose references are elsewhere, too: the later places keep the old one.
    let lists = at_each(|m: &Graph| vec![&m.1, &m.4]);
    let changed = lists
        .replace(&model, [vec![Ref::new(7.0)], vec![]])
        .unwrap();
    assert_eq!(
        (changed.1[0].get(), changed.1.len(), changed.4.len()),
        (7.0, 1, 0)
    );
    let first = at_each(|m: &Graph| vec![&m.1]);
    let changed = first.replace(&model, [vec![]]).unwrap();
    assert_eq!(changed.4[0].get(), 2.0);

    // What follows a node that became longer, shorter, or the first place of another.
    let lists = at_each(|m: &Graph| vec![&m.5, &*m.6]);
    let changed = lists
        .replace(&model, [vec![1.0, 2.0, 3.0], vec![]])
        .unwrap();
    assert_eq!((changed.5, changed.6.len()), (vec![1.0, 2.0, 3.0], 0));
    assert!(changed.7.upgrade().unwrap().same(&changed.6));
    type Pair = (Vec<Shared<f32>>, Vec<Shared<f32>>, f32, f32);
    let one = Shared::new(1.0_f32);
    let pair: Pair = (vec![one.clone()], vec![one.clone(), one], 2.0, 3.0);
    let emptied = at(|pair: &Pair| &pair.0).replace(&pair, vec![]).unwrap();
    assert_eq!(*emptied.1[0], 1.0);
    let both = at_each(|pair: &Pair| vec![&pair.2, &pair.3]);
    let changed = both.replace(&emptied, [20.0, 30.0]).unwrap();
    assert_eq!((*changed.1[1], changed.2, changed.3), (1.0, 20.0, 30.0));
}

/// Replacing several places at once is replacing one after the other.
#[test]
fn replacing_together_is_replacing_in_turn() {
    type Model = (
        Vec<Shared<f32>>,
        Vec<Shared<f32>>,
        Vec<Shared<f32>>,
        Vec<Shared<f32>>,
    );
    let (a, b) = (Shared::new(1.0_f32), Shared::new(2.0));
    let model: Model = (
        vec![a.clone(), b.clone()],
        vec![b.clone()],
        vec![a.clone(), a.clone()],
        vec![b.clone(), a.clone()],
    );
    let new = Shared::new(3.0);
    // Values that are new, that are in the model before or behind their place, and that are shared with each other.
    let values = [
        vec![],
        vec![new.clone(), new],
        vec![b.clone()],
        vec![a.clone(), b, a],
        vec![Shared::new(4.0)],
    ];
    let places: [fn(&Model) -> &Vec<Shared<f32>>; 4] = [|m| &m.0, |m| &m.1, |m| &m.2, |m| &m.3];
    for first in 0..4 {
        for second in first + 1..4 {
            for value in &values {
                for other in &values {
                    let (place, behind) = (places[first], places[second]);
                    let together = at_each(move |m: &Model| vec![behind(m), place(m)]);
                    let together = together
                        .replace(&model, [other.clone(), value.clone()])
                        .unwrap();
                    let mut expected = model.clone();
                    for (number, value) in [(first, value), (second, other)] {
                        *[
                            &mut expected.0,
                            &mut expected.1,
                            &mut expected.2,
                            &mut expected.3,
                        ][number] = value.clone();
                    }
                    let (leaves, treedef) = graph::flatten::<f32, _>(&together);
                    assert_eq!(
                        (leaves, treedef),
                        graph::flatten::<f32, _>(&expected),
                        "{first} {second}"
                    );
                }
            }
        }
    }
}

#[test]
fn leaves_of_dynamic_trees_are_replaced_together() {
    type Model = (Tree<f32>, f32, Tree<f32>);
    let tree = |start: f32| -> Tree<f32> {
        Tree::of(&(start, vec![start + 1.0, start + 2.0]))
            .cast()
            .unwrap()
    };
    let model: Model = (tree(1.0), 4.0, tree(5.0));
    let leaves =
        at_each(|m: &Model| vec![&m.0.leaves()[2], &m.0.leaves()[0], &m.1, &m.2.leaves()[1]]);
    let changed = leaves.update(&model, |leaf| leaf * 10.0).unwrap();
    assert_eq!(changed.0.leaves(), [10.0, 2.0, 30.0]);
    assert_eq!(
        (changed.1, changed.2.leaves()),
        (40.0, &[5.0, 60.0, 7.0][..])
    );
}

#[test]
fn mistaken_selections_are_errors() {
    let model = mlp();
    let text = |outcome: Result<Mlp, TreeError>| outcome.unwrap_err().to_string();
    let weights = at_each(|m: &Mlp| vec![&m.layers[0].weight, &m.output.weight]);
    let count = |values: &str| {
        format!(
            "cannot replace the selected `f32`: expected a value for each of 2 selected places, found {values}; \
             pass as many values as `get` returns places"
        )
    };
    assert_eq!(text(weights.replace(&model, [1.0])), count("1 value"));
    assert_eq!(
        text(weights.replace(&model, [1.0, 2.0, 3.0])),
        count("3 values")
    );
    let twice = at_each(|m: &Mlp| vec![&m.output, &m.layers[0], &m.output]);
    assert_eq!(
        text(twice.update(&model, Clone::clone)),
        "cannot replace the selected `Linear`: it is selected twice at output, perhaps as a shared node at two paths; \
         select each node once"
    );
    assert_eq!(twice.paths(&model).unwrap().len(), 3);
    static OUTSIDE: f32 = 1.0;
    let outside = at_each(|m: &Mlp| vec![&m.output.weight, &OUTSIDE]);
    assert!(text(outside.replace(&model, [1.0, 2.0])).contains("not inside the model"));
}

#[test]
fn place_inside_another_is_an_error() {
    #[derive(Module, Clone, Debug, PartialEq)]
    struct Chain {
        #[param]
        weight: f32,
        next: Option<Box<Chain>>,
    }
    let last = Chain {
        weight: 2.0,
        next: None,
    };
    let chain = Chain {
        weight: 1.0,
        next: Some(Box::new(last.clone())),
    };
    let both = at_each(|chain: &Chain| vec![&**chain.next.as_ref().unwrap(), chain]);
    assert_eq!(
        both.replace(&chain, [last.clone(), last])
            .unwrap_err()
            .to_string(),
        "cannot replace the selected `Chain`: next is inside of the root, which is also selected; select only one of them"
    );
}

#[test]
fn value_that_holds_another_place_is_an_error() {
    type Model = (Vec<Shared<Vec<f32>>>, Vec<f32>, Shared<Vec<f32>>);
    let list = Shared::new(vec![1.0_f32]);
    let model: Model = (vec![], vec![2.0], list.clone());
    let first = at_each(|m: &Model| vec![&m.1, &*m.2]);
    assert_eq!(
        first.replace(&model, [vec![], vec![3.0]]).unwrap().2[0],
        3.0
    );

    // The new first place holds the node that contains the second.
    type Pair = (Option<Shared<Holder>>, Shared<Holder>);
    #[derive(Module, Clone, Debug)]
    struct Holder {
        inner: Option<Shared<Holder>>,
        #[param]
        weight: f32,
    }
    let holder = |inner, weight| Shared::new(Holder { inner, weight });
    let inside = holder(None, 2.0);
    let pair: Pair = (Some(holder(None, 1.0)), holder(Some(inside), 3.0));
    let both =
        at_each(|pair: &Pair| vec![pair.0.as_ref().unwrap(), pair.1.inner.as_ref().unwrap()]);
    let replaced = both
        .replace(&pair, [holder(None, 4.0), holder(None, 5.0)])
        .unwrap();
    assert_eq!(
        (
            replaced.0.unwrap().weight,
            replaced.1.inner.as_ref().unwrap().weight
        ),
        (4.0, 5.0)
    );
    assert_eq!(
        both.replace(&pair, [pair.1.clone(), holder(None, 5.0)])
            .unwrap_err()
            .to_string(),
        "cannot build a model with other values: a value contains a node of the model in which another place is replaced; \
         replace one place after the other"
    );
}

#[test]
fn weak_edge_before_its_node_is_passed() {
    type Model = (WeakShared<f32>, Shared<f32>);
    let node = Shared::new(1.0_f32);
    let model: Model = (Shared::downgrade(&node), node);
    for selected in [
        at(|m: &Model| &m.1).path(&model).unwrap(),
        at_each(|m: &Model| vec![&m.1]).paths(&model).unwrap()[0].clone(),
    ] {
        assert_eq!(selected.to_string(), "[1]");
    }
    let changed = at(|m: &Model| &m.1)
        .replace(&model, Shared::new(2.0))
        .unwrap();
    assert_eq!(*changed.1, 2.0);
    assert!(changed.0.upgrade().unwrap().same(&changed.1));
}
