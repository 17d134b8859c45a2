//! A float without attribute may be trained, kept or fixed.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    scale: f32,
}

fn main() {}
