//! A misspelt collection does not compile.

use pytree_core::Module;

use pytree_core::kind::BatchStat;

#[derive(Module)]
struct Model {
    #[state(BatchStats)]
    mean: f32,
}

fn main() {}
