//! The field that leads back is marked, not the variant.

use pytree_core::Module;

#[derive(Module)]
enum Layer {
    #[module(recursive)]
    Nested(Box<Layer>),
    Identity,
}

fn main() {}
