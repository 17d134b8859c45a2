//! What is boxed is a module.

use pytree_core::module_object;

#[module_object]
trait Layer {
    fn forward(&self, input: f32) -> f32;
}

#[derive(Clone)]
struct Scale {
    factor: f32,
}

impl Layer for Scale {
    fn forward(&self, input: f32) -> f32 {
        input
    }
}

fn main() {}
