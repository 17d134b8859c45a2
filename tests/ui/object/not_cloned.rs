//! What is boxed can be copied.

use pytree_core::{Module, module_object};

#[module_object]
trait Layer {
    fn forward(&self, input: f32) -> f32;
}

#[derive(Module)]
struct Scale {
    #[param]
    factor: f32,
}

impl Layer for Scale {
    fn forward(&self, input: f32) -> f32 {
        input
    }
}

fn main() {}
