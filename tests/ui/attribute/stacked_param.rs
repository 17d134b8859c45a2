//! The axis of an array is named in the attribute of its kind.

use pytree_core::Module;

#[derive(Module)]
struct Experts {
    #[param]
    #[module(stacked = "expert")]
    weight: ndarray::Array3<f32>,
}

fn main() {}
