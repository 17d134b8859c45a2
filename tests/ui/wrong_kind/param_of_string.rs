//! A string is not trained. It is part of the model's structure.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    name: String,
}

fn main() {}
// gallery 7: A kind that does not fit the type
