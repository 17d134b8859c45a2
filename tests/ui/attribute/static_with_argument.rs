//! What is static has no collection.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[r#static(fixed)]
    size: usize,
}

fn main() {}
