//! Parentheses name a collection.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[state()]
    mean: f32,
}

fn main() {}
