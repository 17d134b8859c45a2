//! A state is not in a collection of parameters.

use pytree_core::kind::Param;
use pytree_core::{Collection, Module};

#[derive(Collection)]
#[collection(parent = Param)]
struct Adapter;

#[derive(Module)]
struct Model {
    #[state(Adapter)]
    scale: f32,
}

fn main() {}
