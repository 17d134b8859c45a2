//! A state is in one collection, also when two attributes name it.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[state(pytree_core::kind::BatchStat)]
    #[state(pytree_core::kind::Cache)]
    mean: f32,
}

fn main() {}
