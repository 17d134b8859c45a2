//! What uses a module that borrows is not reported too.

use pytree_core::{Module, tree};

#[derive(Module)]
struct Model<'a, T> {
    #[param]
    scale: T,
    #[r#static]
    name: &'a str,
}

fn count(model: &Model<'static, f32>) -> usize {
    tree::leaves::<f32, _>(model).len() + model.registry().len()
}

fn main() {}
