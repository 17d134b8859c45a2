//! An array anywhere in a tuple is an array.

use ndarray::Array1;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[module(static)]
    named: Option<(String, Array1<f32>)>,
}

fn main() {}
