//! The collection of a parameter is a type.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param("adapter")]
    scale: f32,
}

fn main() {}
