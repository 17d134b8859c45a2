//! The attribute stands on a trait.

use pytree_core::module_object;

#[module_object]
struct Layer;

fn main() {}
