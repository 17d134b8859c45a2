//! What uses a model with a mistake is not reported too.

use pytree_core::{Module, tree};

#[derive(Module)]
struct Model {
    weight: f32,
}

#[derive(Module)]
struct Outer {
    #[param(x)]
    scale: f32,
    model: Model,
}

fn use_both(outer: &Outer) -> usize {
    tree::leaves::<f32, _>(outer).len() + outer.model.registry().len()
}

fn main() {}
