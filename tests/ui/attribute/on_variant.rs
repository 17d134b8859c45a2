//! Kinds belong to fields.

use pytree_core::Module;

#[derive(Module)]
enum Layer {
    #[param]
    Scale(#[param] f32),
}

fn main() {}
