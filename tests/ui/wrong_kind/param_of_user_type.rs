//! A type that derives nothing of ours is no leaf.

use pytree_core::Module;

struct Weights(Vec<f32>);

#[derive(Module)]
struct Model {
    #[param]
    weights: Weights,
}

fn main() {}
