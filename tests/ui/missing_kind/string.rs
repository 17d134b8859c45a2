//! A string is not a leaf.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    name: String,
}

fn main() {}
