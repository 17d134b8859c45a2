//! A type of the user's that derives nothing of ours.

use pytree_core::Module;

enum Activation {
    Relu,
}

#[derive(Module)]
struct Model {
    activation: Activation,
}

fn main() {}
