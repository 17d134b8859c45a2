//! What uses a wrong collection is not reported too.

use pytree_core::{Collection, Module};

#[derive(Collection)]
enum Average {}

#[derive(Module)]
struct Model {
    #[state(Average)]
    mean: f32,
}

fn main() {}
