//! A pytree owns its leaves.

use pytree_core::Module;

#[derive(Module)]
struct Model<'a> {
    #[param]
    scale: &'a f32,
}

fn main() {}
