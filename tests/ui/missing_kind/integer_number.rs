//! An integer without attribute may be counted up or fixed.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    steps: i32,
}

fn main() {}
