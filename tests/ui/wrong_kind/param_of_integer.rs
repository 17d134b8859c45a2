//! An integer has no gradient.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    steps: i32,
}

fn main() {}
