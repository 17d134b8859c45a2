//! One attribute suffices.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    #[param]
    scale: f32,
}

fn main() {}
