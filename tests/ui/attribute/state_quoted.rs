//! A collection is a type, not a string.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[state("BatchStat")]
    mean: f32,
}

fn main() {}
