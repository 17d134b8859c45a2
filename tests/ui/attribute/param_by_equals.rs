//! A parameter takes no value.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param = 1.0]
    scale: f32,
}

fn main() {}
