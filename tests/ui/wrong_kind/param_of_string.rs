//! A string is not trained.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    name: String,
}

fn main() {}
