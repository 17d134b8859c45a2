//! The kinds of a module's leaves are those of its own fields.

use ndarray::Array1;
use pytree_core::Module;

#[derive(Module)]
struct Linear {
    #[param]
    weight: Array1<f32>,
}

#[derive(Module)]
struct Model {
    #[param]
    layers: Vec<Linear>,
}

fn main() {}
// gallery 6: A kind on a module
