//! rustc itself refuses an attribute that no derive declares.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[parm]
    scale: f32,
}

fn main() {}
