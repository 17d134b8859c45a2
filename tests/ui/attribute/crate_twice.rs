//! One path suffices.

use pytree_core::Module;

#[derive(Module)]
#[module(crate = pytree_core, crate = pytree)]
struct Model {
    #[param]
    scale: f32,
}

fn main() {}
