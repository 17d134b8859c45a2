//! Kinds belong to fields.

use pytree_core::Module;

#[derive(Module)]
#[param]
struct Model {
    #[param]
    scale: f32,
}

fn main() {}
