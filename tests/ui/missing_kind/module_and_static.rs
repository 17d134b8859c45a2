//! A tuple of a module and a static value has no kind.

use ndarray::Array1;
use pytree_core::Module;

#[derive(Module)]
struct Linear {
    #[param]
    weight: Array1<f32>,
}

#[derive(Module)]
struct Model {
    layers: Vec<(Linear, usize)>,
}

fn main() {}
