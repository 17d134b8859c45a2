//! Typed selectors.

use pytree_core::error::SelectionMistake;
use pytree_core::{Filter, Leaf, Shared, TreeError, at, partition, tree};

use super::*;

#[derive(Leaf, Clone, Copy, Debug, PartialEq)]
struct Marker;

#[test]
fn selectors_have_paths_at_every_level() {
    let model = mlp();
    let path = |place: Result<KeyPath, TreeError>| place.unwrap().to_string();
    let weight = at(|m: &Mlp| &m.layers[1].weight);
    assert_eq!(path(weight.path(&model)), "layers[1].weight");
    assert_eq!(*weight.get(&model), 2.0);
    assert_eq!(path(at(|m: &Mlp| &m.layers[0]).path(&model)), "layers[0]");
    assert_eq!(path(at(|m: &Mlp| &m.layers).path(&model)), "layers");
    assert_eq!(path(at(|m: &Mlp| &m.output).path(&model)), "output");
    assert_eq!(path(at(|m: &Mlp| m).path(&model)), "");
    assert_eq!(
        path(at(|m: &Mlp| &m.output.bias).path(&model)),
        "output.bias"
    );
    assert_eq!(format!("{weight:?}"), "Selector(f32 of Mlp)");
    assert_eq!(path(weight.clone().path(&model)), "layers[1].weight");
}

#[test]
fn nodes_with_equal_leaves_differ_by_structure() {
    let model = (vec![vec![1.0_f32]], vec![Some(2.0_f32)]);
    type Model = (Vec<Vec<f32>>, Vec<Option<f32>>);
    let path = |place: Result<KeyPath, TreeError>| place.unwrap().to_string();
    assert_eq!(path(at(|m: &Model| &m.0).path(&model)), "[0]");
    assert_eq!(path(at(|m: &Model| &m.0[0]).path(&model)), "[0][0]");
    assert_eq!(path(at(|m: &Model| &m.0[0][0]).path(&model)), "[0][0][0]");
    // The option and what is in it have one path; what replaces them differs.
    let option = at(|m: &Model| &m.1[0]);
    assert_eq!(option.replace(&model, None).unwrap().1, [None]);
    let inside = at(|m: &Model| m.1[0].as_ref().unwrap());
    assert_eq!(inside.replace(&model, 5.0).unwrap().1, [Some(5.0)]);
}

#[test]
fn leaves_at_one_address_differ_by_type() {
    #[derive(Leaf, Clone, Debug, PartialEq)]
    struct Outer(f32);
    let model = (Outer(1.0), 2.0_f32);
    let outer = at(|m: &(Outer, f32)| &m.0);
    assert_eq!(outer.path(&model).unwrap().to_string(), "[0]");
    let inside = at(|m: &(Outer, f32)| &m.0.0);
    assert!(matches!(
        inside.path(&model),
        Err(TreeError::Selection {
            mistake: SelectionMistake::Elsewhere,
            ..
        })
    ));
}

#[test]
fn replacement_leaves_rest_unchanged() {
    let model = mlp();
    let weight = at(|m: &Mlp| &m.layers[1].weight);
    let mut expected = mlp();
    expected.layers[1].weight = 20.0;
    assert_eq!(
        weight.update(&model, |weight| weight * 10.0).unwrap(),
        expected
    );
    assert_eq!(model, mlp());

    let layers = at(|m: &Mlp| &m.layers);
    let longer = layers
        .replace(&model, vec![linear(5.0), linear(6.0), linear(7.0)])
        .unwrap();
    assert_eq!(longer.layers[2], linear(7.0));
    assert_eq!(longer.output, model.output);
    assert!(
        layers
            .replace(&model, Vec::new())
            .unwrap()
            .layers
            .is_empty()
    );
    assert_eq!(
        at(|m: &Mlp| m).replace(&model, expected.clone()).unwrap(),
        expected
    );
}

#[test]
fn shared_node_is_replaced_at_all_paths() {
    let model = tied();
    for (selector, path) in [
        (at(|m: &Tied| &m.embed), "embed"),
        // The later place is known by the first.
        (at(|m: &Tied| &m.inner[1]), "embed"),
    ] {
        assert_eq!(selector.path(&model).unwrap().to_string(), path);
        let changed = selector.replace(&model, Shared::new(linear(7.0))).unwrap();
        assert!(changed.embed.same(&changed.inner[1]));
        assert!(!changed.embed.same(&changed.inner[0]));
        assert_eq!(*changed.embed, linear(7.0));
        assert_eq!(*changed.inner[0], linear(2.0));
    }
    for selector in [at(|m: &Tied| &*m.embed), at(|m: &Tied| &*m.inner[1])] {
        let changed = selector.replace(&model, linear(8.0)).unwrap();
        assert!(changed.embed.same(&changed.inner[1]));
        assert_eq!(*changed.inner[1], linear(8.0));
    }
    let inside = at(|m: &Tied| &m.inner[1].weight)
        .replace(&model, 4.0)
        .unwrap();
    assert_eq!(inside.embed.weight, 4.0);
    assert!(inside.embed.same(&inside.inner[1]));
}

#[test]
fn replacement_preserves_sharing_with_model() {
    let model = tied();
    let inner = at(|m: &Tied| &m.inner);
    let longer = inner
        .update(&model, |inner| {
            inner.iter().cloned().chain([inner[1].clone()]).collect()
        })
        .unwrap();
    assert_eq!(longer.inner.len(), 3);
    assert!(longer.embed.same(&longer.inner[1]));
    assert!(longer.embed.same(&longer.inner[2]));
    // The first place goes; the later one keeps what was there.
    type Pair = (Vec<Shared<f32>>, Vec<Shared<f32>>);
    let one = Shared::new(1.0_f32);
    let pair: Pair = (vec![one.clone()], vec![one.clone(), one]);
    let first = at(|pair: &Pair| &pair.0);
    let changed = first
        .replace(&pair, vec![Shared::new(2.0), Shared::new(3.0)])
        .unwrap();
    assert_eq!((*changed.0[0], *changed.0[1]), (2.0, 3.0));
    assert_eq!(*changed.1[0], 1.0);
    assert!(changed.1[0].same(&changed.1[1]));
}

#[test]
fn path_filter_accepts_leaves_below() {
    let model = mlp();
    let split = |filter: Filter| {
        let [part, rest] =
            partition::split::<Mlp, f32, 2>(&model, [filter, Filter::everything()]).unwrap();
        (part.leaves().to_vec(), rest.len())
    };
    let layers = at(|m: &Mlp| &m.layers).filter(&model).unwrap();
    assert_eq!(split(layers), (vec![1.0, 1.5, 2.0, 2.5], 2));
    let bias = at(|m: &Mlp| &m.output.bias).filter(&model).unwrap();
    assert_eq!(split(bias), (vec![3.5], 5));
}

#[test]
fn selector_filter_accepts_shared_leaves() {
    let model = tied();
    let leaves = |filter: Filter| {
        partition::filter::<Tied, f32>(&model, &filter)
            .leaves()
            .to_vec()
    };
    let inner = at(|m: &Tied| &m.inner).filter(&model).unwrap();
    assert_eq!(leaves(inner), [1.0, 1.5, 2.0, 2.5]);
    let only_shared = at(|m: &Tied| &*m.inner[1]).filter(&model).unwrap();
    assert_eq!(leaves(only_shared), [1.0, 1.5]);
}

#[test]
fn selection_without_leaves_or_outside_is_rejected() {
    let text = |error: TreeError| error.to_string();
    let empty = (Vec::<f32>::new(), 1.0_f32);
    assert_eq!(
        text(at(|m: &(Vec<f32>, f32)| &m.0).path(&empty).unwrap_err()),
        "cannot find the selected `Vec<f32>`: it has no leaves, but a selected node is found by the memory addresses of its leaves; use `edit::replace_at` with the path of the node, or select its parent"
    );
    static OUTSIDE: f32 = 1.0;
    let outside = at(|_: &Mlp| &OUTSIDE);
    let expected = "cannot find the selected `f32`: its leaves are not inside the model; return a reference to a leaf or a node of the model, not to a copy or to a static field";
    assert_eq!(text(outside.path(&mlp()).unwrap_err()), expected);
    assert_eq!(text(outside.filter(&mlp()).unwrap_err()), expected);
    assert_eq!(text(outside.replace(&mlp(), 2.0).unwrap_err()), expected);
    // A copy of a node of the model is not that node.
    let copy = at(|m: &Mlp| Box::leak(Box::new(m.output.clone())) as &Linear);
    assert!(copy.path(&mlp()).is_err());
    let markers = (Marker, Marker, 1.0_f32);
    assert_eq!(
        text(
            at(|m: &(Marker, Marker, f32)| &m.1)
                .path(&markers)
                .unwrap_err()
        ),
        "cannot find the selected `Marker`: its leaves have size zero, so they have no memory addresses of their own; use `edit::replace_at` with the path of the node, or select its parent"
    );
}

#[test]
fn leaves_without_size_are_found_among_others() {
    type Node = (Marker, f32);
    let model = vec![(Marker, 1.0_f32), (Marker, 2.0)];
    let second = at(|m: &Vec<Node>| &m[1]);
    assert_eq!(second.path(&model).unwrap().to_string(), "[1]");
    assert_eq!(
        second.replace(&model, (Marker, 5.0)).unwrap(),
        [(Marker, 1.0), (Marker, 5.0)]
    );
}

#[test]
#[should_panic(expected = "index out of bounds: the len is 2 but the index is 7")]
fn selector_index_out_of_bounds_panics() {
    let _ = at(|m: &Mlp| &m.layers[7].weight).path(&mlp());
}

#[test]
fn selector_outlives_its_models() {
    let position = 1;
    let weight = at(move |m: &Mlp| &m.layers[position].weight);
    let paths: Vec<KeyPath> =
        std::thread::spawn(move || [mlp(), mlp()].map(|model| weight.path(&model).unwrap()))
            .join()
            .unwrap()
            .to_vec();
    assert_eq!(texts(&paths), ["layers[1].weight", "layers[1].weight"]);
    assert_eq!(tree::leaves::<f32, _>(&mlp()).len(), 6);
}
