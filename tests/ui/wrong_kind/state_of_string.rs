//! A string is not a state.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[state]
    name: String,
}

fn main() {}
