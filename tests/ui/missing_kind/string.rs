//! A string is no leaf.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    name: String,
}

fn main() {}
