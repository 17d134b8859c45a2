//! Uses only the facade, through its prelude: its derives find the core inside of it.

use pytree::prelude::*;
use pytree::{Collection, Leaf, Static, module_object};

#[derive(Module, Clone, Debug)]
struct Line {
    #[param]
    slope: Tensor,
    #[state(BatchStat)]
    mean: Tensor,
    #[r#static]
    name: String,
}

#[derive(Pytree, Clone)]
struct Batch(Tensor, Tensor);

#[derive(Static, Clone)]
enum Setting {
    Rate(f32),
}

#[derive(Leaf, Clone, Debug)]
struct Key(u32);

#[derive(Collection)]
struct Average;

#[module_object]
trait Layer {}

impl Layer for Line {}

#[derive(Module, Clone)]
struct Model {
    layers: Vec<Box<dyn Layer>>,
    #[state(Average)]
    key: Key,
    #[r#static]
    setting: Setting,
}

#[test]
fn the_facade_alone_is_enough() {
    let tensor = || Tensor::from(1.0_f32);
    let line = Line {
        slope: tensor(),
        mean: tensor(),
        name: String::new(),
    };
    let model = Model {
        layers: vec![Box::new(line)],
        key: Key(1),
        setting: Setting::Rate(0.5),
    };
    assert_eq!(tree::any_leaves(&model).len(), 3);
    assert_eq!(
        tree::leaves::<Tensor, _>(&Batch(tensor(), tensor())).len(),
        2
    );
}
