//! An axis has no role.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Heads {
    #[param("in heads head_dim", roles(input, output))]
    weight: Tensor,
}

fn main() {}
