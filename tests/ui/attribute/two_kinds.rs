//! A field has one kind.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    #[state]
    scale: f32,
}

fn main() {}
