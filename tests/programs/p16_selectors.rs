//! Selects places of a model with a closure, edits nodes at any depth, compares models, and converts leaves to one
//! vector.

use std::collections::VecDeque;

use pytree::prelude::*;
use pytree::{at, at_each};
use pytree::{edit, ravel};

#[derive(Module, Clone, Debug, PartialEq)]
struct Linear {
    #[param]
    weight: Tensor,
    #[param]
    bias: Option<Tensor>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Mlp {
    layers: Vec<Linear>,
    output: Linear,
}

fn linear(weight: f32) -> Linear {
    Linear {
        weight: Tensor::from([weight, weight + 0.5]),
        bias: Some(Tensor::from(0.0_f32)),
    }
}

fn mlp() -> Mlp {
    Mlp {
        layers: vec![linear(1.0), linear(2.0)],
        output: linear(3.0),
    }
}

#[test]
fn selector_reads_names_and_replaces_place() {
    let model = mlp();
    let weight = at(|m: &Mlp| &m.layers[1].weight);
    assert_eq!(weight.get(&model).to_vec::<f32>(), [2.0, 2.5]);
    assert_eq!(weight.path(&model).unwrap().to_string(), "layers[1].weight");

    let zeroed = weight.replace(&model, Tensor::from(0.0_f32)).unwrap();
    assert_eq!(zeroed.layers[1].weight.item::<f32>(), 0.0);
    assert_eq!(zeroed.layers[0], model.layers[0]);
    let doubled = weight.update(&model, |weight| weight * 2.0).unwrap();
    assert_eq!(doubled.layers[1].weight.to_vec::<f32>(), [4.0, 5.0]);

    let gradient = grad(|m: &Mlp| m.layers[1].weight.sum() * 3.0)(&model);
    let here = gradient[weight.path(&model).unwrap().to_string().as_str()].clone();
    assert_eq!(here.to_vec::<f32>(), [3.0, 3.0]);
}

#[test]
fn several_places_are_replaced_at_once() {
    let model = mlp();
    let biases = at_each(|m: &Mlp| {
        m.layers
            .iter()
            .map(|layer| &layer.bias)
            .chain([&m.output.bias])
            .collect()
    });
    let plain = biases.update(&model, |_| None).unwrap();
    assert_eq!(tree::leaves(&plain).len(), 3);

    // The first and the last layer change places.
    let ends = at_each(|m: &Mlp| vec![&m.layers[0], &m.output]);
    let swapped = ends
        .replace(&model, [model.output.clone(), model.layers[0].clone()])
        .unwrap();
    assert_eq!(
        (&swapped.layers[0], &swapped.output),
        (&model.output, &model.layers[0])
    );
    assert_eq!(swapped.layers[1], model.layers[1]);

    let trained = ends.filter(&model).unwrap();
    let gradient =
        grad(|m: &Mlp| (&m.layers[0].weight * &m.layers[1].weight * &m.output.weight).sum())
            .wrt(trained)(&model);
    assert_eq!(gradient.len(), 2);
    assert!(gradient.get("layers[1].weight").is_err());

    let mistake = ends.replace(&model, [linear(7.0)]).unwrap_err().to_string();
    assert_eq!(
        mistake,
        "cannot replace the selected `Linear`: expected a value for each of 2 selected places, found 1 value; \
         pass as many values as `get` returns places"
    );
}

#[test]
fn a_selected_node_may_become_another() {
    let model = mlp();
    let layers = at(|m: &Mlp| &m.layers);
    let deeper = layers
        .update(&model, |layers| {
            layers.iter().cloned().chain([linear(9.0)]).collect()
        })
        .unwrap();
    assert_eq!(deeper.layers.len(), 3);

    let plain = at(|m: &Mlp| &m.output.bias).replace(&model, None).unwrap();
    assert_eq!(plain.output.bias, None);

    let [frozen, rest] = partition::split(
        &model,
        [layers.filter(&model).unwrap(), Filter::everything()],
    )
    .unwrap();
    assert_eq!((frozen.len(), rest.len()), (4, 2));

    let elsewhere = linear(0.0);
    let mistake = at(move |_: &Mlp| Box::leak(Box::new(elsewhere.weight.clone())) as &Tensor)
        .path(&model)
        .unwrap_err()
        .to_string();
    assert!(mistake.contains("not inside the model"), "{mistake}");
}

#[test]
fn nodes_are_edited_by_type_or_path() {
    let model = mlp();
    let unbiased = edit::apply(model.clone(), |layer: &mut Linear| layer.bias = None);
    assert_eq!(tree::leaves(&unbiased).len(), 3);

    let swapped = edit::replace_at(&model, "layers[0]", linear(7.0)).unwrap();
    assert_eq!(swapped.layers[0], linear(7.0));
    let mistake = edit::replace_at(&model, "layer[0]", linear(7.0)).unwrap_err();
    assert!(mistake.to_string().contains("layers[0]"), "{mistake}");

    let places: Vec<String> = edit::paths_of::<Linear>(&model)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(places, ["layers[0]", "layers[1]", "output"]);
}

#[test]
fn models_are_compared_leaf_by_leaf() {
    let model = mlp();
    assert!(diff(&model, &model.clone()).is_empty());
    let moved = at(|m: &Mlp| &m.output.weight)
        .update(&model, |weight| weight + 0.25)
        .unwrap();
    let difference = diff(&model, &moved);
    assert!(!difference.within(0.1) && difference.within(0.25));
    assert_eq!(difference.leaves().len(), 1);
    let table = difference.to_string();
    assert!(table.contains("output.weight"), "{table}");
    assert!(diff(&model, &Tree::of(&model)).is_empty());
}

#[test]
fn ravel_works_under_every_transformation() {
    let model = mlp();
    let (vector, form) = ravel(&model);
    assert_eq!(
        vector.to_vec::<f32>(),
        [1.0, 1.5, 0.0, 2.0, 2.5, 0.0, 3.0, 3.5, 0.0]
    );
    assert_eq!(form.unravel(&vector).unwrap(), model);

    let loss = |m: &Mlp| (&m.output.weight * &m.output.weight).sum();
    let gradient = grad(|vector: &Tensor| loss(&form.unravel(vector).unwrap()))(&vector);
    assert_eq!(
        gradient.to_vec::<f32>(),
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 6.0, 7.0, 0.0]
    );
    let norm = jit(|model: Mlp| {
        let (vector, _) = ravel(&model);
        (&vector * &vector).sum()
    });
    assert_eq!(
        norm(model).item::<f32>(),
        1.0 + 2.25 + 4.0 + 6.25 + 9.0 + 12.25
    );
}

#[test]
fn queues_and_reference_counted_nodes_are_nodes() {
    #[derive(Module, Clone, Debug)]
    struct Window {
        recent: VecDeque<Linear>,
        encoder: Shared<Linear>,
    }
    let window = Window {
        recent: VecDeque::from([linear(1.0)]),
        encoder: Shared::new(linear(2.0)),
    };
    let gradient =
        grad(|w: &Window| w.recent[0].weight.sum() + w.encoder.weight.sum() * 2.0)(&window);
    assert_eq!(gradient["recent[0].weight"].to_vec::<f32>(), [1.0, 1.0]);
    assert_eq!(gradient["encoder.weight"].to_vec::<f32>(), [2.0, 2.0]);
}
