//! An array without attribute would silently not be trained.

use ndarray::Array2;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    weight: Array2<f32>,
}

fn main() {}
