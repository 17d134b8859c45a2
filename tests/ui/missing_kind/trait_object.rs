//! A box of a trait is a module by `#[module_object]` only.

use pytree_core::Module;

trait Layer: Send + Sync {
    fn forward(&self, input: f32) -> f32;
}

#[derive(Module)]
struct Model {
    layers: Vec<Box<dyn Layer>>,
}

fn main() {}
