//! A state is in one collection.

use pytree_core::Module;

use pytree_core::kind::{BatchStat, Cache};

#[derive(Module)]
struct Model {
    #[state(BatchStat, Cache)]
    scale: f32,
}

fn main() {}
