//! The attribute of an item needs its argument.

use pytree_core::Module;

#[derive(Module)]
#[module]
struct Model {
    #[param]
    scale: f32,
}

fn main() {}
