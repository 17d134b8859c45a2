//! An argument is a word, not a string.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module("static")]
    size: usize,
}

fn main() {}
