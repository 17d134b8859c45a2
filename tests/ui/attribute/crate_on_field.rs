//! The crate is named once, above the item.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(crate = pytree_core)]
    size: usize,
}

fn main() {}
