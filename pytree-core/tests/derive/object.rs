//! `#[module_object]`: boxes of users' traits as modules.

use ndarray::{Array1, array};
use pytree_core::{DynamicModule, Module, graph, module_object, tree};

use crate::derive::{rebuilt, shown};

#[module_object]
trait Layer {
    fn forward(&self, input: f32) -> f32;

    fn twice(&self, input: f32) -> f32 {
        self.forward(self.forward(input))
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

#[derive(Module, Clone, Debug)]
struct Shift {
    #[param]
    by: Array1<f32>,
    inner: Option<Box<dyn Layer>>,
}

impl Layer for Shift {
    fn forward(&self, input: f32) -> f32 {
        let input = self
            .inner
            .as_ref()
            .map_or(input, |inner| inner.forward(input));
        input + self.by.sum()
    }
}

#[derive(Module, Clone, Debug)]
struct Chain {
    layers: Vec<Box<dyn Layer>>,
}

fn chain() -> Chain {
    Chain {
        layers: vec![
            Box::new(Scale { factor: 2.0 }),
            Box::new(Shift {
                by: array![1.0],
                inner: Some(Box::new(Scale { factor: 3.0 })),
            }),
        ],
    }
}

fn apply(chain: &Chain) -> f32 {
    chain
        .layers
        .iter()
        .fold(1.0, |value, layer| layer.forward(value))
}

fn is_seven(value: f32) -> bool {
    (value - 7.0).abs() < 1e-6
}

#[test]
fn boxes_are_rebuilt_with_their_types() {
    assert!(is_seven(apply(&chain())));
    assert!(is_seven(apply(&rebuilt(&chain()))));
    assert!(is_seven(apply(&chain().clone())));
    assert!((chain().layers[0].twice(1.0) - 4.0).abs() < 1e-6);
}

#[test]
fn boxes_display_as_their_content() {
    assert_eq!(
        shown(&chain()),
        "PyTreeDef(Chain { layers: [Scale { factor: * }, Shift { by: *, inner: Scale { factor: * } }] })"
    );
    assert_eq!(format!("{:?}", chain().layers[0]), "Scale { factor: 2.0 }");
}

#[test]
fn concrete_type_is_part_of_structure() {
    let one = |layer: Box<dyn Layer>| tree::structure(&layer);
    let scale = || Box::new(Scale { factor: 1.0 });
    let shift = Box::new(Shift {
        by: array![1.0],
        inner: None,
    });
    assert_eq!(one(scale()), one(scale()));
    assert_ne!(one(scale()), one(shift));
}

#[test]
fn leaves_of_boxes_are_mapped() {
    let layers: Vec<Box<dyn Layer>> = vec![
        Box::new(Scale { factor: 2.0 }),
        Box::new(Scale { factor: 3.0 }),
    ];
    let mapped = graph::map(&layers, |factor: &f32| factor * 10.0);
    assert!((mapped[1].forward(1.0) - 30.0).abs() < 1e-6);
    assert_eq!(layers[0].registry().len(), 1);
}

mod public {
    use pytree_core::{Module, module_object};

    #[module_object]
    pub(crate) trait Shown: std::fmt::Debug + Module {
        fn name(&self) -> String;
    }
}

#[derive(Module, Clone, Debug)]
struct Named {
    #[r#static]
    name: String,
}

impl public::Shown for Named {
    fn name(&self) -> String {
        self.name.clone()
    }
}

#[test]
fn module_object_keeps_supertraits() {
    let boxed: Box<dyn public::Shown> = Box::new(Named {
        name: "n".to_owned(),
    });
    assert_eq!(rebuilt(&boxed).name(), "n");
    assert_eq!(format!("{boxed:?}"), "Named { name: \"n\" }");
}

#[test]
fn boxes_can_be_sent() {
    fn is_send<T: Send + Sync>(_: &T) {}
    is_send(&chain());
}

impl Layer for DynamicModule<f32> {
    fn forward(&self, input: f32) -> f32 {
        input * self.value::<f32>("factor").unwrap_or(1.0)
    }
}

#[test]
fn boxed_types_with_equal_structures_differ() {
    let typed = Scale { factor: 2.0 };
    let mut dynamic = DynamicModule::<f32>::typed("Scale").unwrap();
    dynamic.register_param("factor", 2.0_f32).unwrap();
    assert_eq!(tree::structure(&typed), tree::structure(&dynamic));
    let one = |layer: Box<dyn Layer>| tree::structure(&layer);
    assert_ne!(one(Box::new(typed.clone())), one(Box::new(dynamic.clone())));
    assert_eq!(one(Box::new(typed.clone())), one(Box::new(typed)));
    assert!((dynamic.forward(3.0) - 6.0).abs() < 1e-6);
}
