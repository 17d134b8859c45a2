//! Parameters have no collections.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param(trainable)]
    scale: f32,
}

fn main() {}
