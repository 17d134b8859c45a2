//! A static type holds no arrays.

use ndarray::Array1;
use pytree_core::Static;

#[derive(Static, Clone)]
struct Setting {
    rates: Array1<f32>,
}

fn main() {}
