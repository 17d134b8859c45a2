//! A reference without lifetime is reported by rustc, once.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    scale: &f32,
}

fn main() {}
