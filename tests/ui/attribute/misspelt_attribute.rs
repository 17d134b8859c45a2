//! The derives declare `param`, `state`, `module` and a few others. Rust refuses all other names.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[parm]
    scale: f32,
}

fn main() {}
// gallery 3: A misspelt attribute
