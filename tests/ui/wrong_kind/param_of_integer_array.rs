//! An array of integers has no gradient.

use ndarray::Array1;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[param]
    counts: Vec<Array1<i32>>,
}

fn main() {}
