//! A wrong argument of a trait's attribute is one mistake: fields that hold its boxes are not reported too.

use pytree_core::{Module, module_object};

#[module_object(crte = pytree_core)]
trait Layer {}

#[derive(Module, Clone)]
struct Model {
    layers: Vec<Box<dyn Layer>>,
}

fn main() {}
