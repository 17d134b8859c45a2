//! Each attribute too many is reported.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    #[state]
    #[r#static]
    scale: f32,
}

fn main() {}
