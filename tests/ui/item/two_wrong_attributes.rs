//! All mistakes of the attributes are reported at once.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(statc)]
    size: usize,
    #[param]
    #[state]
    scale: f32,
}

fn main() {}
