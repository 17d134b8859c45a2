//! A type that is static as a whole derives `Static`.

use pytree_core::Module;

#[derive(Module)]
#[module(static)]
struct Model {
    #[param]
    scale: f32,
}

fn main() {}
