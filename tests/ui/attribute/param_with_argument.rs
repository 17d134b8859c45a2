//! The collection of a parameter is a type.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param(1)]
    scale: f32,
}

fn main() {}
