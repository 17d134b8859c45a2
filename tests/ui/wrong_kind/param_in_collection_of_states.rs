//! A parameter is not in a collection of states.

use pytree_core::Module;
use pytree_core::kind::BatchStat;

#[derive(Module)]
struct Model {
    #[param(BatchStat)]
    mean: f32,
}

fn main() {}
