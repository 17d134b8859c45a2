//! One argument suffices.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(static, static)]
    size: usize,
}

fn main() {}
