//! All mistakes are reported at once, each at its place.

use ndarray::Array2;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    weight: Array2<f32>,
    #[param]
    name: String,
    #[param]
    scale: f32,
}

fn main() {}
