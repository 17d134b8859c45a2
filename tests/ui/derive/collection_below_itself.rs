//! A collection is not its own ancestor.

use pytree_core::{Collection, Module};

#[derive(Collection)]
#[collection(parent = Right)]
struct Left;

#[derive(Collection)]
#[collection(parent = Left)]
struct Right;

#[derive(Module)]
struct Model {
    #[state(Right)]
    mean: f32,
}

fn main() {}
