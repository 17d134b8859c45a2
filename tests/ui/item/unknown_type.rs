//! A misspelt type is reported by rustc, once.

use ndarray::Array2;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    weight: Aray2<f32>,
    #[param]
    bias: Array2<f32>,
}

fn main() {}
