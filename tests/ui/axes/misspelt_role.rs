//! The name of a role is misspelt.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param("in out", roles(input, outputs))]
    weight: Tensor,
}

fn main() {}
