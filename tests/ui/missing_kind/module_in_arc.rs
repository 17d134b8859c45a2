//! A pointer that hides how often its value is there is no container of modules.

use std::sync::Arc;

use pytree_core::Module;

#[derive(Module)]
struct Scale {
    #[param]
    factor: f32,
}

#[derive(Module)]
struct Model {
    scale: Arc<Scale>,
}

fn main() {}
