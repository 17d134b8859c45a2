//! A type without a derive of this library is not a leaf.

use pytree_core::Module;

struct Weights(Vec<f32>);

#[derive(Module)]
struct Model {
    #[param]
    weights: Weights,
}

fn main() {}
