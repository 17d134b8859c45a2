//! An unknown argument is not passed over.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(frozen)]
    size: usize,
}

fn main() {}
