//! A struct with named fields, of every kind, of leaves, containers and modules.

use ndarray::Array2;
use pytree_core::kind::BatchStat;
use pytree_core::{Collection, FieldKind, Module, ModuleType, tree};

#[derive(Collection)]
struct Average;

#[derive(Module)]
struct Linear {
    #[param]
    weight: Array2<f32>,
    #[param]
    bias: Option<Array2<f32>>,
}

#[derive(Module)]
struct Model {
    layers: Vec<Linear>,
    #[param]
    scale: f32,
    #[state]
    steps: u32,
    #[state(BatchStat)]
    mean: f64,
    #[state(Average)]
    average: f64,
    #[r#static]
    size: usize,
    #[module(static)]
    name: String,
}

#[test]
fn named_fields_are_of_every_kind() {
    let model = Model {
        layers: Vec::new(),
        scale: 1.0,
        steps: 0,
        mean: 0.0,
        average: 0.0,
        size: 2,
        name: String::new(),
    };
    assert_eq!(tree::any_leaves(&model).len(), 4);
    assert_eq!(Model::REGISTRY[0], ("layers", FieldKind::Module));
    assert_eq!(Model::REGISTRY.len(), 7);
}
