//! The alias needs its argument.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module]
    size: usize,
}

fn main() {}
