//! A collection stands in parentheses.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[state = BatchStat]
    mean: f32,
}

fn main() {}
