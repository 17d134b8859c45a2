//! A path is written without quotes.

use pytree_core::Module;

#[derive(Module)]
#[module(crate = "pytree_core")]
struct Model {
    #[param]
    scale: f32,
}

fn main() {}
