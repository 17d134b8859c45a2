//! A misspelt kind is none the less recognised.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(parm)]
    scale: f32,
}

fn main() {}
