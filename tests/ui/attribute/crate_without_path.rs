//! The crate needs a path.

use pytree_core::Module;

#[derive(Module)]
#[module(crate)]
struct Model {
    #[param]
    scale: f32,
}

fn main() {}
