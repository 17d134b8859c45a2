//! A misspelt argument is not passed over.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(recursiv)]
    model: Option<Box<Model>>,
}

fn main() {}
