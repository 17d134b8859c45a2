//! The alias says the same.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[r#static]
    #[module(static)]
    size: usize,
}

fn main() {}
