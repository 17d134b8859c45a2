//! Arrays in a container are arrays.

use ndarray::Array2;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[r#static]
    weights: Vec<Array2<f32>>,
}

fn main() {}
