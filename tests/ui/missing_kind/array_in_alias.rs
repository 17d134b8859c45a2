//! An alias is seen through: kinds are not read off the name of a type.

use ndarray::Array2;
use pytree_core::Module;

type Linear = Array2<f64>;

#[derive(Module)]
struct Model {
    linear: Linear,
}

fn main() {}
