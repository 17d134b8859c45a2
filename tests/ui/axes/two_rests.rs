//! Two `...` in one shape.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param("... in ...")]
    weight: Tensor,
}

fn main() {}
