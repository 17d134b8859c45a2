//! A reference is not a leaf, even if it is `static`.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    scale: &'static f32,
}

fn main() {}
