//! A container of arrays needs a kind as an array does.

use ndarray::Array1;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    weights: Vec<Option<Array1<f32>>>,
}

fn main() {}
