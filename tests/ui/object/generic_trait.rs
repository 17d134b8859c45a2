//! The trait has no parameters.

use pytree_core::module_object;

#[module_object]
trait Layer<T> {
    fn forward(&self, input: T) -> T;
}

fn main() {}
