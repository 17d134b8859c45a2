//! The field that leads back is marked, not the item.

use pytree_core::Module;

#[derive(Module)]
#[module(recursive)]
struct Model {
    #[param]
    scale: f32,
}

fn main() {}
