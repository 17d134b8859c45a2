//! Every form of enum: unit, tuple and struct variants, with discriminants, with one variant, with none.

use pytree_core::{Module, Pytree, Static, tree};

#[derive(Module)]
enum Layer {
    Identity,
    Empty(),
    Braces {},
    Scale(#[param] f32),
    Named {
        #[param]
        factor: f32,
        #[r#static]
        name: String,
    },
    Nested(Box<Layer>, Option<Box<Self>>),
}

#[derive(Module)]
enum One {
    Scale(#[param] f32),
}

#[derive(Module)]
enum Never {}

#[derive(Module)]
enum Numbered {
    First = 1,
    Second = 5,
}

#[derive(Pytree)]
enum Input {
    Text(String),
    Numbers { values: Vec<f64> },
    Nothing,
}

#[derive(Static, Clone)]
enum Padding {
    Same,
    By(usize, f32),
    Named { left: usize },
}

#[derive(Module)]
struct Model {
    layer: Layer,
    one: One,
    never: Option<Never>,
    numbered: Numbered,
    #[r#static]
    padding: [Padding; 3],
}

#[test]
fn enums_have_variants_of_all_forms() {
    let scale = || Box::new(Layer::Scale(1.0));
    let model = Model {
        layer: Layer::Nested(scale(), Some(scale())),
        one: One::Scale(1.0),
        never: None,
        numbered: Numbered::Second,
        padding: [
            Padding::Same,
            Padding::By(1, 0.5),
            Padding::Named { left: 1 },
        ],
    };
    assert_eq!(tree::any_leaves(&model).len(), 3);
    let _ = [Layer::Identity, Layer::Empty(), Layer::Braces {}];
    let _ = Layer::Named {
        factor: 1.0,
        name: String::new(),
    };
    let _ = Numbered::First;
    let values = vec![1.0, 2.0];
    let input = [
        Input::Text(String::new()),
        Input::Numbers { values },
        Input::Nothing,
    ];
    assert_eq!(tree::any_leaves(&input).len(), 3);
}
