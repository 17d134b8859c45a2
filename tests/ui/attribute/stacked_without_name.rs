//! The attribute names the axis.

use pytree_core::Module;

#[derive(Module)]
struct Expert {
    #[param]
    weight: ndarray::Array2<f32>,
}

#[derive(Module)]
struct Experts {
    #[module(stacked)]
    experts: Expert,
}

fn main() {}
