//! An argument stands in parentheses.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module = "static"]
    size: usize,
}

fn main() {}
