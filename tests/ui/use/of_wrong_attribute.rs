//! What uses a model with a wrong attribute is not reported too.

use pytree_core::{Module, tree};

#[derive(Module)]
struct Model {
    #[param(1)]
    scale: f32,
}

#[derive(Module)]
struct Outer {
    model: Vec<Model>,
}

fn use_both(outer: &Outer) -> usize {
    tree::leaves::<f32, _>(outer).len() + outer.model[0].registry().len()
}

fn main() {}
