//! A misspelt argument of the item is not passed over.

use pytree_core::Module;

#[derive(Module)]
#[module(crat = pytree_core)]
struct Model {
    #[param]
    scale: f32,
}

fn main() {}
