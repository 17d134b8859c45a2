//! A reference is no leaf, however long it lives.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    scale: &'static f32,
}

fn main() {}
