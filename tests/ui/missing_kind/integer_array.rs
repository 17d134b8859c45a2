//! An array of integers without attribute.

use ndarray::Array1;
use pytree_core::Module;

#[derive(Module)]
struct Model {
    counts: Array1<i32>,
}

fn main() {}
