//! The kinds of a variant's fields are checked as those of a struct's are.

use pytree_core::Module;

#[derive(Module)]
enum Layer {
    Named(#[param] String),
    Identity,
}

fn main() {}
