//! Kinds are attributes, only `static` has an alias.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(param)]
    scale: f32,
}

fn main() {}
