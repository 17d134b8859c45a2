//! A map of numbers needs a kind as a number does.

use std::collections::HashMap;

use pytree_core::Module;

#[derive(Module)]
struct Model {
    scales: HashMap<String, f32>,
}

fn main() {}
