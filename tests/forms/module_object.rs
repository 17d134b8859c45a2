//! Boxes of a trait are modules, with and without supertraits, and of any visibility.

use std::fmt::Debug;

use pytree_core::{Module, module_object, tree};

#[module_object]
trait Layer {
    fn forward(&self, input: f32) -> f32;
}

#[module_object]
pub trait Named: Debug + Module {
    fn name(&self) -> String {
        String::new()
    }
}

#[derive(Module, Clone, Debug)]
struct Scale {
    #[param]
    factor: f32,
}

impl Layer for Scale {
    fn forward(&self, input: f32) -> f32 {
        input * self.factor
    }
}

impl Named for Scale {}

#[derive(Module, Clone, Debug)]
struct Model {
    layers: Vec<Box<dyn Layer>>,
    named: Option<Box<dyn Named>>,
}

#[test]
fn boxes_of_traits_are_modules() {
    let model = Model {
        layers: vec![Box::new(Scale { factor: 1.0 })],
        named: Some(Box::new(Scale { factor: 1.0 })),
    };
    assert_eq!(tree::any_leaves(&model.clone()).len(), 2);
    assert!(model.named.is_some_and(|named| named.name().is_empty()));
}
