//! An unknown argument is not passed over.

use pytree_core::module_object;

#[module_object(crat = pytree_core)]
trait Layer {
    fn forward(&self, input: f32) -> f32;
}

fn main() {}
