//! The facade under another name: `crate = path` gives its path.

use ::pytree as renamed;
use renamed::{Collection, Leaf, Module, Pytree, Static, module_object, tree};

// Nothing that is found by the facade's own name is what it seems.
mod pytree {}

#[derive(Module, Clone)]
#[module(crate = crate::forms::renamed_crate::renamed)]
struct Scale {
    #[param]
    factor: renamed::Tensor,
    #[state(Average)]
    mean: f32,
}

#[derive(Pytree)]
#[pytree(crate = renamed)]
struct Pair(Scale, f32);

#[derive(Static, Clone)]
#[pytree(crate = renamed)]
struct Setting(f32);

#[derive(Leaf, Clone, Debug)]
#[pytree(crate = renamed)]
struct Key(u8);

#[derive(Collection)]
#[pytree(crate = renamed)]
struct Average;

#[module_object(crate = renamed)]
trait Layer {}

impl Layer for Scale {}

#[derive(Module)]
#[module(crate = renamed)]
struct Model {
    layers: Vec<Box<dyn Layer>>,
    #[state]
    key: Key,
    #[r#static]
    setting: Setting,
}

#[test]
fn the_facade_may_be_renamed() {
    let scale = || Scale {
        factor: renamed::Tensor::from(1.0_f32),
        mean: 0.0,
    };
    let model = Model {
        layers: vec![Box::new(scale())],
        key: Key(1),
        setting: Setting(0.5),
    };
    assert_eq!(tree::any_leaves(&model).len(), 3);
    assert_eq!(tree::any_leaves(&Pair(scale(), 1.0)).len(), 3);
}
