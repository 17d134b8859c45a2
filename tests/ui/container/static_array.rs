//! An array in a plain container is a child.

use ndarray::Array1;
use pytree_core::Pytree;

#[derive(Pytree)]
struct Batch {
    #[pytree(static)]
    input: Array1<f32>,
}

fn main() {}
