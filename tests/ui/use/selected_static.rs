//! A selector selects leaves and nodes; a static field is neither.

use pytree_core::{Module, Static, at};

#[derive(Static, Clone, Debug, PartialEq)]
struct Activation;

#[derive(Module)]
struct Model {
    #[param]
    weight: f32,
    #[r#static]
    activation: Activation,
}

fn main() {
    let _ = at(|model: &Model| &model.activation);
}
