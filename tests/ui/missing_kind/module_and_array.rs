//! A field that mixes modules and leaves has no kind.

use ndarray::Array1;
use pytree_core::Module;

#[derive(Module)]
struct Linear {
    #[param]
    weight: Array1<f32>,
}

#[derive(Module)]
struct Model {
    pair: (Linear, Array1<f32>),
}

fn main() {}
