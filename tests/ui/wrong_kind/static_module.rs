//! A static module would be invisible to every transformation.

use ndarray::Array1;
use pytree_core::Module;

#[derive(Module, Clone, Debug, PartialEq)]
struct Linear {
    #[param]
    weight: Array1<f32>,
}

#[derive(Module)]
struct Model {
    #[r#static]
    linear: Linear,
}

fn main() {}
