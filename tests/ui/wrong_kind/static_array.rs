//! An array belongs among the leaves, though it can be compared.

use ndarray::Array2;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[r#static]
    weight: Array2<f32>,
}

fn main() {}
