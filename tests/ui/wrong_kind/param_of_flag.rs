//! A truth value has no gradient.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    trained: bool,
}

fn main() {}
